{#- iq4_nl: value = d * level of a 4-bit code; low nibbles are weights 0..15, high ones 16..31. -#}
{$ from "mul_mat/fetch.wgsl" import quad, half with context $}
{$ from "mul_mat/types/levels.wgsl" import iq4, iq4_values $}
{$ set super, inner = 1, 1 $}
{$ macro block(s, n) $}{$ endmacro $}
{$ macro load(s, n, g) $}{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let q{{ s }} = {{ quad("q", n, "0u") }};
let sc{{ s }} = vec2<f32>(unpack2x16float({{ half("d", n) }}).x);
{$ endmacro $}
{$ macro values(s, j) $}{{ iq4_values(s, j) }}{$ endmacro $}
{$ macro functions() $}{{ iq4() }}{$ endmacro $}
