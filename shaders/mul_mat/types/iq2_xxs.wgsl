{#- iq2_xxs: value = d * (0.5 + scale) / 4 * codebook entry, eight weights each. Two words a chunk:
    four entry numbers; four times seven sign bits and the scale. -#}
{$ from "mul_mat/fetch.wgsl" import quad, half with context $}
{$ import "mul_mat/types/codebook.wgsl" as C with context $}
{$ set super, inner = 8, 1 $}
{$ macro block(s, n) $}
let d{{ s }} = unpack2x16float({{ half("d", n) }}).x;
{$ endmacro $}
{$ macro load(s, n, g) $}{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let q{{ s }} = {{ quad("q", n, "((" ~ g ~ ") >> 1u)") }};
let e{{ s }} = select(q{{ s }}.xy, q{{ s }}.zw, (({{ g }}) & 1u) == 1u);
let wa{{ s }} = signed16(vec4<u32>({{ C.entry("e" ~ s ~ ".x & 255u") }}, {{ C.entry("(e" ~ s ~ ".x >> 8u) & 255u") }}), even_signs(e{{ s }}.y));
let wb{{ s }} = signed16(vec4<u32>({{ C.entry("(e" ~ s ~ ".x >> 16u) & 255u") }}, {{ C.entry("e" ~ s ~ ".x >> 24u") }}), even_signs(e{{ s }}.y >> 14u));
let sc{{ s }} = vec2<f32>(d{{ s }} * (0.5 + f32(e{{ s }}.y >> 28u)) * 0.25);
let mn{{ s }} = sc{{ s }} * -64.0;
{$ endmacro $}
{$ macro functions() $}{{ C.functions("iq2") }}{$ endmacro $}
