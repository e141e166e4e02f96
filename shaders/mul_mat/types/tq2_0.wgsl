{#- tq2_0: value = d * (code - 1); turn v of group g is bits 2 v of quads 2 g and the next. -#}
{$ from "mul_mat/fetch.wgsl" import quad, half with context $}
{$ set super, inner = 8, 4 $}
{$ macro chunk_of(g, v) $}({{ g }}) * 4u + {{ v }}{$ endmacro $}
{$ macro group_of(c) $}(({{ c }}) >> 2u){$ endmacro $}
{$ macro turn_of(c) $}(({{ c }}) & 3u){$ endmacro $}
{$ macro block(s, n) $}
let d{{ s }} = unpack2x16float({{ half("d", n) }}).x;
{$ endmacro $}
{$ macro load(s, n, g) $}
let qa{{ s }} = {{ quad("q", n, "(" ~ g ~ ") * 2u") }};
let qb{{ s }} = {{ quad("q", n, "(" ~ g ~ ") * 2u + 1u") }};
{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let sh{{ s }} = vec4<u32>(({{ v }}) * 2u);
let wa{{ s }} = (qa{{ s }} >> sh{{ s }}) & vec4<u32>(0x03030303u);
let wb{{ s }} = (qb{{ s }} >> sh{{ s }}) & vec4<u32>(0x03030303u);
let sc{{ s }} = vec2<f32>(d{{ s }});
let mn{{ s }} = vec2<f32>(-d{{ s }});
{$ endmacro $}
