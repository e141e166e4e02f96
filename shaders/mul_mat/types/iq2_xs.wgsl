{#- iq2_xs: value = d * (0.5 + scale) / 4 * codebook entry. Eight weights are sixteen bits: nine of
    the entry's number, seven of signs. `h` has a byte of scales a chunk, sixteen weights a nibble. -#}
{$ from "mul_mat/fetch.wgsl" import quad, half, words with context $}
{$ import "mul_mat/types/codebook.wgsl" as C with context $}
{$ set super, inner = 8, 1 $}
{$ macro block(s, n) $}
let d{{ s }} = unpack2x16float({{ half("d", n) }}).x;
{$ endmacro $}
{$ macro load(s, n, g) $}{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let q{{ s }} = {{ quad("q", n, "((" ~ g ~ ") >> 1u)") }};
let e{{ s }} = select(q{{ s }}.xy, q{{ s }}.zw, (({{ g }}) & 1u) == 1u);
let sg{{ s }} = ((e{{ s }} >> vec2<u32>(9u)) & vec2<u32>(127u)) | ((e{{ s }} >> vec2<u32>(25u)) << vec2<u32>(7u));
let wa{{ s }} = signed16(vec4<u32>({{ C.entry("e" ~ s ~ ".x & 511u") }}, {{ C.entry("(e" ~ s ~ ".x >> 16u) & 511u") }}), even_signs(sg{{ s }}.x));
let wb{{ s }} = signed16(vec4<u32>({{ C.entry("e" ~ s ~ ".y & 511u") }}, {{ C.entry("(e" ~ s ~ ".y >> 16u) & 511u") }}), even_signs(sg{{ s }}.y));
let st{{ s }} = {{ words("h", n, "((" ~ g ~ ") >> 2u)") }} >> ((({{ g }}) & 3u) * 8u);
let sc{{ s }} = d{{ s }} * (vec2<f32>(0.5) + vec2<f32>(vec2<u32>(st{{ s }} & 15u, (st{{ s }} >> 4u) & 15u))) * 0.25;
let mn{{ s }} = sc{{ s }} * -64.0;
{$ endmacro $}
{$ macro functions() $}{{ C.functions("iq2") }}{$ endmacro $}
