{#- q3_K: value = d * (scale - 32) * (code - 4). Quads 0..1 are the third bits (bit c of byte i:
    weight i of chunk c), 2..5 the 2-bit codes as in q2_K (one quad on), 6 holds 12 bytes of 6-bit scales (low
    nibbles in bytes 0..7, upper two bits in bytes 8..11) and d. -#}
{$ from "mul_mat/fetch.wgsl" import quad with context $}
{$ set super, inner = 8, 4 $}
{$ macro chunk_of(g, v) $}({{ g }}) * 4u + {{ v }}{$ endmacro $}
{$ macro group_of(c) $}(({{ c }}) >> 2u){$ endmacro $}
{$ macro turn_of(c) $}(({{ c }}) & 3u){$ endmacro $}
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
{$ macro load(s, n, g) $}
let qa{{ s }} = {{ quad("q", n, "2u + (" ~ g ~ ") * 2u") }};
let qb{{ s }} = {{ quad("q", n, "3u + (" ~ g ~ ") * 2u") }};
{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let sh{{ s }} = vec4<u32>(({{ v }}) * 2u);
let bit{{ s }} = vec4<u32>(({{ g }}) * 4u + {{ v }});
let wa{{ s }} = ((qa{{ s }} >> sh{{ s }}) & vec4<u32>(0x03030303u))
    | (((ha{{ s }} >> bit{{ s }}) & vec4<u32>(0x01010101u)) << vec4<u32>(2u));
let wb{{ s }} = ((qb{{ s }} >> sh{{ s }}) & vec4<u32>(0x03030303u))
    | (((hb{{ s }} >> bit{{ s }}) & vec4<u32>(0x01010101u)) << vec4<u32>(2u));
let sb{{ s }} = pick(ss{{ s }}, ({{ g }}) * 2u + (({{ v }}) >> 1u)) >> ((({{ v }}) & 1u) * 16u);
let sc{{ s }} = d{{ s }} * (vec2<f32>(vec2<u32>(sb{{ s }} & 63u, (sb{{ s }} >> 8u) & 63u)) - 32.0);
let mn{{ s }} = sc{{ s }} * -4.0;
{$ endmacro $}
