{#- iq2_s: value = d * (0.5 + scale) / 4 * codebook entry. Quads 0 and 1: the low bytes of entry
    numbers, a word a chunk; quads 2 and 3: sign bits, a word a chunk; `h`: eight bytes with two upper
    bits of four numbers each, eight bytes of scales, sixteen weights a nibble. -#}
{$ from "mul_mat/fetch.wgsl" import quad, half with context $}
{$ import "mul_mat/types/codebook.wgsl" as C with context $}
{$ set super, inner = 8, 1 $}
{$ macro block(s, n) $}
let d{{ s }} = unpack2x16float({{ half("d", n) }}).x;
let h{{ s }} = {{ quad("h", n, "0u") }};
{$ endmacro $}
{$ macro load(s, n, g) $}{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let e{{ s }} = pick({{ quad("q", n, "((" ~ g ~ ") >> 2u)") }}, ({{ g }}) & 3u);
let sg{{ s }} = pick({{ quad("q", n, "2u + ((" ~ g ~ ") >> 2u)") }}, ({{ g }}) & 3u);
let at{{ s }} = (({{ g }}) & 3u) * 8u;
let up{{ s }} = select(h{{ s }}.x, h{{ s }}.y, ({{ g }}) > 3u) >> at{{ s }};
let st{{ s }} = select(h{{ s }}.z, h{{ s }}.w, ({{ g }}) > 3u) >> at{{ s }};
let i{{ s }} = ((vec4<u32>(e{{ s }}) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u)) | (((vec4<u32>(up{{ s }}) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(3u)) << vec4<u32>(8u));
let wa{{ s }} = signed16(vec4<u32>({{ C.entry("i" ~ s ~ ".x") }}, {{ C.entry("i" ~ s ~ ".y") }}), sg{{ s }});
let wb{{ s }} = signed16(vec4<u32>({{ C.entry("i" ~ s ~ ".z") }}, {{ C.entry("i" ~ s ~ ".w") }}), sg{{ s }} >> 16u);
let sc{{ s }} = d{{ s }} * (vec2<f32>(0.5) + vec2<f32>(vec2<u32>(st{{ s }} & 15u, (st{{ s }} >> 4u) & 15u))) * 0.25;
let mn{{ s }} = sc{{ s }} * -64.0;
{$ endmacro $}
{$ macro functions() $}{{ C.functions("iq2") }}{$ endmacro $}
