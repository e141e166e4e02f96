{#- iq1_m: value = d * (2 scale + 1) * (codebook entry +- 1/8), eight weights each. Quads 0 and 1: low
    bytes of entry numbers, a word a chunk; quad 2: a nibble for eight weights, three upper bits of the
    number and whether 1/8 is taken away; `h`: sixteen scales of three bits, four in sixteen bits, whose
    upper four bits together are d as f16. -#}
{$ from "mul_mat/fetch.wgsl" import quad, words with context $}
{$ import "mul_mat/types/codebook.wgsl" as C with context $}
{$ set super, inner = 8, 1 $}
{$ macro block(s, n) $}
let ha{{ s }} = {{ words("h", n, "0u") }};
let hb{{ s }} = {{ words("h", n, "1u") }};
let d{{ s }} = unpack2x16float(((ha{{ s }} >> 12u) & 0xFu) | ((ha{{ s }} >> 24u) & 0xF0u) | ((hb{{ s }} >> 4u) & 0xF00u) | ((hb{{ s }} >> 16u) & 0xF000u)).x;
let h{{ s }} = {{ quad("q", n, "2u") }};
{$ endmacro $}
{$ macro load(s, n, g) $}{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let e{{ s }} = pick({{ quad("q", n, "((" ~ g ~ ") >> 2u)") }}, ({{ g }}) & 3u);
let up{{ s }} = pick(h{{ s }}, ({{ g }}) >> 1u) >> ((({{ g }}) & 1u) * 16u);
let i{{ s }} = ((vec4<u32>(e{{ s }}) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u)) | (((vec4<u32>(up{{ s }}) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(7u)) << vec4<u32>(8u));
let wa{{ s }} = eighths({{ C.entry("i" ~ s ~ ".x") }}, {{ C.entry("i" ~ s ~ ".y") }}, ((~up{{ s }} >> 3u) & 1u) | ((~up{{ s }} >> 6u) & 2u));
let wb{{ s }} = eighths({{ C.entry("i" ~ s ~ ".z") }}, {{ C.entry("i" ~ s ~ ".w") }}, ((~up{{ s }} >> 11u) & 1u) | ((~up{{ s }} >> 14u) & 2u));
let st{{ s }} = select(ha{{ s }}, hb{{ s }}, ({{ g }}) > 3u) >> (((({{ g }}) >> 1u) & 1u) * 16u + (({{ g }}) & 1u) * 6u);
let sc{{ s }} = d{{ s }} * 0.125 * vec2<f32>(vec2<u32>(2u * (st{{ s }} & 7u) + 1u, 2u * ((st{{ s }} >> 3u) & 7u) + 1u));
let mn{{ s }} = sc{{ s }} * -9.0;
{$ endmacro $}
{$ macro functions() $}{{ C.functions("iq1") }}{$ endmacro $}
