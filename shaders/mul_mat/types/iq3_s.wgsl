{#- iq3_s: value = d * (1 + 2 scale) * codebook entry, four weights each. `q`: low bytes of entry
    numbers, eight a chunk; words 0 and 1 of `h`: their ninth bits, 2..9: sign bits, a word a chunk,
    10: scales, a nibble a chunk. -#}
{$ from "mul_mat/fetch.wgsl" import quad, half, words with context $}
{$ import "mul_mat/types/codebook.wgsl" as C with context $}
{$ set super, inner = 8, 1 $}
{$ macro block(s, n) $}
let d{{ s }} = unpack2x16float({{ half("d", n) }}).x;
let st{{ s }} = {{ words("h", n, "10u") }};
{$ endmacro $}
{$ macro load(s, n, g) $}{$ endmacro $}
{$ macro four(i) $}
vec4<u32>({{ C.entry(i ~ ".x") }}, {{ C.entry(i ~ ".y") }}, {{ C.entry(i ~ ".z") }}, {{ C.entry(i ~ ".w") }})
{$- endmacro $}
{$ macro chunk(s, n, g, v) $}
let q{{ s }} = {{ quad("q", n, "((" ~ g ~ ") >> 1u)") }};
let e{{ s }} = select(q{{ s }}.xy, q{{ s }}.zw, (({{ g }}) & 1u) == 1u);
let up{{ s }} = {{ words("h", n, "((" ~ g ~ ") >> 2u)") }} >> ((({{ g }}) & 3u) * 8u);
let sg{{ s }} = {{ words("h", n, "2u + (" ~ g ~ ")") }};
let ia{{ s }} = nine_bits(e{{ s }}.x, up{{ s }});
let ib{{ s }} = nine_bits(e{{ s }}.y, up{{ s }} >> 4u);
let wa{{ s }} = signed16({{ four("ia" ~ s) }}, sg{{ s }});
let wb{{ s }} = signed16({{ four("ib" ~ s) }}, sg{{ s }} >> 16u);
let sc{{ s }} = vec2<f32>(d{{ s }} * f32(1u + 2u * ((st{{ s }} >> (({{ g }}) * 4u)) & 15u)));
let mn{{ s }} = sc{{ s }} * -64.0;
{$ endmacro $}
{$ macro functions() $}
{{ C.functions("iq3") }}
// Four bytes, each with a bit of `up` above it.
fn nine_bits(w: u32, up: u32) -> vec4<u32> {
    let low = (vec4<u32>(w) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u);
    return low | (((vec4<u32>(up) >> vec4<u32>(0u, 1u, 2u, 3u)) & vec4<u32>(1u)) << vec4<u32>(8u));
}
{$ endmacro $}
