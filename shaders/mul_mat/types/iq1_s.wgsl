{#- iq1_s: value = d * (2 scale + 1) * (codebook entry +- 1/8), eight weights each. Quads 0 and 1:
    low bytes of entry numbers, a word a chunk; quad 2: sixteen bits a chunk, three upper bits of each
    number, the scale, and whether 1/8 is taken away. -#}
{$ from "mul_mat/fetch.wgsl" import quad, half with context $}
{$ import "mul_mat/types/codebook.wgsl" as C with context $}
{$ set super, inner = 8, 1 $}
{$ macro block(s, n) $}
let d{{ s }} = unpack2x16float({{ half("d", n) }}).x;
let h{{ s }} = {{ quad("q", n, "2u") }};
{$ endmacro $}
{$ macro load(s, n, g) $}{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let e{{ s }} = pick({{ quad("q", n, "((" ~ g ~ ") >> 2u)") }}, ({{ g }}) & 3u);
let up{{ s }} = pick(h{{ s }}, ({{ g }}) >> 1u) >> ((({{ g }}) & 1u) * 16u);
let i{{ s }} = ((vec4<u32>(e{{ s }}) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u)) | (((vec4<u32>(up{{ s }}) >> vec4<u32>(0u, 3u, 6u, 9u)) & vec4<u32>(7u)) << vec4<u32>(8u));
let plus{{ s }} = 3u - 3u * ((up{{ s }} >> 15u) & 1u);
let wa{{ s }} = eighths({{ C.entry("i" ~ s ~ ".x") }}, {{ C.entry("i" ~ s ~ ".y") }}, plus{{ s }});
let wb{{ s }} = eighths({{ C.entry("i" ~ s ~ ".z") }}, {{ C.entry("i" ~ s ~ ".w") }}, plus{{ s }});
let sc{{ s }} = vec2<f32>(d{{ s }} * f32(2u * ((up{{ s }} >> 12u) & 7u) + 1u) * 0.125);
let mn{{ s }} = sc{{ s }} * -9.0;
{$ endmacro $}
{$ macro functions() $}{{ C.functions("iq1") }}{$ endmacro $}
