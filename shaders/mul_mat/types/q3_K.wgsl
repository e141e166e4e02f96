{#- q3_K: value = d * (scale - 32) * (code - 4). Quads 0..1 are the third bits (bit c of byte i:
    weight i of chunk c), 2..5 the 2-bit codes as in q2_K, 6 holds 12 bytes of 6-bit scales (low
    nibbles in bytes 0..7, upper two bits in bytes 8..11) and d. -#}
{$ from "mul_mat/fetch.wgsl" import quad with context $}
{$ set super = 8 $}
{$ macro block(s, n) $}
let k{{ s }} = {{ quad("q", n, "6u") }};
let d{{ s }} = unpack2x16float(k{{ s }}.w).x;
let ha{{ s }} = {{ quad("q", n, "0u") }};
let hb{{ s }} = {{ quad("q", n, "1u") }};
// the sixteen scales as bytes, four a word
let ss{{ s }} = vec4<u32>(
    (k{{ s }}.x & 0x0F0F0F0Fu) | ((k{{ s }}.z & 0x03030303u) << 4u),
    (k{{ s }}.y & 0x0F0F0F0Fu) | (((k{{ s }}.z >> 2u) & 0x03030303u) << 4u),
    ((k{{ s }}.x >> 4u) & 0x0F0F0F0Fu) | (((k{{ s }}.z >> 4u) & 0x03030303u) << 4u),
    ((k{{ s }}.y >> 4u) & 0x0F0F0F0Fu) | (((k{{ s }}.z >> 6u) & 0x03030303u) << 4u));
{$ endmacro $}
{$ macro chunk(s, n, c) $}
let sh{{ s }} = vec4<u32>((({{ c }}) & 3u) * 2u);
let wa{{ s }} = (({{ quad("q", n, "2u + ((" ~ c ~ ") >> 2u) * 2u") }} >> sh{{ s }}) & vec4<u32>(0x03030303u))
    | (((ha{{ s }} >> vec4<u32>({{ c }})) & vec4<u32>(0x01010101u)) << vec4<u32>(2u));
let wb{{ s }} = (({{ quad("q", n, "3u + ((" ~ c ~ ") >> 2u) * 2u") }} >> sh{{ s }}) & vec4<u32>(0x03030303u))
    | (((hb{{ s }} >> vec4<u32>({{ c }})) & vec4<u32>(0x01010101u)) << vec4<u32>(2u));
let sb{{ s }} = pick(ss{{ s }}, ({{ c }}) >> 1u) >> ((({{ c }}) & 1u) * 16u);
let sc{{ s }} = d{{ s }} * (vec2<f32>(vec2<u32>(sb{{ s }} & 63u, (sb{{ s }} >> 8u) & 63u)) - 32.0);
let mn{{ s }} = sc{{ s }} * -4.0;
{$ endmacro $}
