{#- q1_0: value = d * (2 bit - 1), low bits first; chunk c is word c. -#}
{$ from "mul_mat/fetch.wgsl" import quad, half with context $}
{$ set super, inner = 4, 1 $}
{$ macro block(s, n) $}
let d{{ s }} = unpack2x16float({{ half("d", n) }}).x;
let q{{ s }} = {{ quad("q", n, "0u") }};
{$ endmacro $}
{$ macro load(s, n, g) $}{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let h{{ s }} = pick(q{{ s }}, {{ g }});
let wa{{ s }} = vec4<u32>(spread4(h{{ s }}), spread4(h{{ s }} >> 4u), spread4(h{{ s }} >> 8u), spread4(h{{ s }} >> 12u));
let wb{{ s }} = vec4<u32>(spread4(h{{ s }} >> 16u), spread4(h{{ s }} >> 20u), spread4(h{{ s }} >> 24u), spread4(h{{ s }} >> 28u));
let sc{{ s }} = vec2<f32>(2.0 * d{{ s }});
let mn{{ s }} = vec2<f32>(-d{{ s }});
{$ endmacro $}
