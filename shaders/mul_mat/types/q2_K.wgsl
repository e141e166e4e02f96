{#- q2_K: per 16 weights a byte of scale (low nibble) and minimum (high); quad 0 holds these 16
    bytes, quads 1..4 the 2-bit codes: turn v of group g is bits 2 v of quads 1 + 2 g and the next. -#}
{$ from "mul_mat/fetch.wgsl" import quad, word with context $}
{$ set super, inner = 8, 4 $}
{$ macro chunk_of(g, v) $}({{ g }}) * 4u + {{ v }}{$ endmacro $}
{$ macro group_of(c) $}(({{ c }}) >> 2u){$ endmacro $}
{$ macro turn_of(c) $}(({{ c }}) & 3u){$ endmacro $}
{$ macro block(s, n) $}
let dm{{ s }} = unpack2x16float({{ word("d", n) }});
let ss{{ s }} = {{ quad("q", n, "0u") }};
{$ endmacro $}
{$ macro load(s, n, g) $}
let qa{{ s }} = {{ quad("q", n, "1u + (" ~ g ~ ") * 2u") }};
let qb{{ s }} = {{ quad("q", n, "2u + (" ~ g ~ ") * 2u") }};
{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let sh{{ s }} = vec4<u32>(({{ v }}) * 2u);
let wa{{ s }} = (qa{{ s }} >> sh{{ s }}) & vec4<u32>(0x03030303u);
let wb{{ s }} = (qb{{ s }} >> sh{{ s }}) & vec4<u32>(0x03030303u);
let sb{{ s }} = pick(ss{{ s }}, ({{ g }}) * 2u + (({{ v }}) >> 1u)) >> ((({{ v }}) & 1u) * 16u);
let sc{{ s }} = dm{{ s }}.x * vec2<f32>(vec2<u32>(sb{{ s }} & 15u, (sb{{ s }} >> 8u) & 15u));
let mn{{ s }} = -dm{{ s }}.y * vec2<f32>(vec2<u32>((sb{{ s }} >> 4u) & 15u, (sb{{ s }} >> 12u) & 15u));
{$ endmacro $}
