{#- q2_K: per 16 weights a byte of scale (low nibble) and minimum (high); quad 0 holds these 16
    bytes, quads 1..4 the 2-bit codes: chunk c is bits 2 (c & 3) of quads 1 + 2 (c / 4) and the next. -#}
{$ from "mul_mat/fetch.wgsl" import quad, word with context $}
{$ set super = 8 $}
{$ macro block(s, n) $}
let dm{{ s }} = unpack2x16float({{ word("d", n) }});
let ss{{ s }} = {{ quad("q", n, "0u") }};
{$ endmacro $}
{$ macro chunk(s, n, c) $}
let sh{{ s }} = vec4<u32>((({{ c }}) & 3u) * 2u);
let wa{{ s }} = ({{ quad("q", n, "1u + ((" ~ c ~ ") >> 2u) * 2u") }} >> sh{{ s }}) & vec4<u32>(0x03030303u);
let wb{{ s }} = ({{ quad("q", n, "2u + ((" ~ c ~ ") >> 2u) * 2u") }} >> sh{{ s }}) & vec4<u32>(0x03030303u);
let sb{{ s }} = pick(ss{{ s }}, ({{ c }}) >> 1u) >> ((({{ c }}) & 1u) * 16u);
let sc{{ s }} = dm{{ s }}.x * vec2<f32>(vec2<u32>(sb{{ s }} & 15u, (sb{{ s }} >> 8u) & 15u));
let mn{{ s }} = -dm{{ s }}.y * vec2<f32>(vec2<u32>((sb{{ s }} >> 4u) & 15u, (sb{{ s }} >> 12u) & 15u));
{$ endmacro $}
