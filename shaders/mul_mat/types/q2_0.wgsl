{#- q2_0: value = d * (code - 1), 2-bit codes, low bits first; chunk c is words 2 c and 2 c + 1. -#}
{$ from "mul_mat/fetch.wgsl" import quad, half with context $}
{$ set super, inner = 2, 1 $}
{$ macro block(s, n) $}
let d{{ s }} = unpack2x16float({{ half("d", n) }}).x;
let q{{ s }} = {{ quad("q", n, "0u") }};
{$ endmacro $}
{$ macro load(s, n, g) $}{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let h{{ s }} = select(q{{ s }}.xy, q{{ s }}.zw, ({{ g }}) == 1u);
let wa{{ s }} = spread2(h{{ s }}.x);
let wb{{ s }} = spread2(h{{ s }}.y);
let sc{{ s }} = vec2<f32>(d{{ s }});
let mn{{ s }} = vec2<f32>(-d{{ s }});
{$ endmacro $}
{$ macro functions() $}
// Sixteen 2-bit codes as bytes.
fn spread2(h: u32) -> vec4<u32> {
    let b = (vec4<u32>(h) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u);
    return (b | (b << vec4<u32>(6u)) | (b << vec4<u32>(12u)) | (b << vec4<u32>(18u))) & vec4<u32>(0x03030303u);
}
{$ endmacro $}
