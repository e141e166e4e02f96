{#- iq3_xxs: value = d * (0.5 + scale) / 2 * codebook entry, four weights each. Quads 0..3: entry
    numbers, eight bytes a chunk; quads 4 and 5: a word a chunk, four times seven sign bits and the
    scale. -#}
{$ from "mul_mat/fetch.wgsl" import quad, half with context $}
{$ import "mul_mat/types/codebook.wgsl" as C with context $}
{$ set super, inner = 8, 1 $}
{$ macro block(s, n) $}
let d{{ s }} = unpack2x16float({{ half("d", n) }}).x;
{$ endmacro $}
{$ macro load(s, n, g) $}{$ endmacro $}
{$ macro four(w) $}
vec4<u32>({{ C.entry(w ~ " & 255u") }}, {{ C.entry("(" ~ w ~ " >> 8u) & 255u") }}, {{ C.entry("(" ~ w ~ " >> 16u) & 255u") }}, {{ C.entry(w ~ " >> 24u") }})
{$- endmacro $}
{$ macro chunk(s, n, g, v) $}
let q{{ s }} = {{ quad("q", n, "((" ~ g ~ ") >> 1u)") }};
let e{{ s }} = select(q{{ s }}.xy, q{{ s }}.zw, (({{ g }}) & 1u) == 1u);
let sg{{ s }} = pick({{ quad("q", n, "4u + ((" ~ g ~ ") >> 2u)") }}, ({{ g }}) & 3u);
let wa{{ s }} = signed16({{ four("e" ~ s ~ ".x") }}, even_signs(sg{{ s }}));
let wb{{ s }} = signed16({{ four("e" ~ s ~ ".y") }}, even_signs(sg{{ s }} >> 14u));
let sc{{ s }} = vec2<f32>(d{{ s }} * (0.5 + f32(sg{{ s }} >> 28u)) * 0.5);
let mn{{ s }} = sc{{ s }} * -64.0;
{$ endmacro $}
{$ macro functions() $}{{ C.functions("iq3") }}{$ endmacro $}
