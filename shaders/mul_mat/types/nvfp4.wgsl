{#- nvfp4: value = scale of 16 weights (unsigned 8-bit float, a byte of `d`) * half a doubled 4-bit
    float. Chunk c is quad c; eight bytes hold 16 weights, low nibbles before high ones. -#}
{$ from "mul_mat/fetch.wgsl" import quad, word with context $}
{$ from "mul_mat/types/levels.wgsl" import fp4 $}
{$ set super, inner = 2, 1 $}
{$ macro block(s, n) $}
let d{{ s }} = {{ word("d", n) }};
{$ endmacro $}
{$ macro load(s, n, g) $}{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let q{{ s }} = {{ quad("q", n, g) }};
let lo{{ s }} = fp4_codes(q{{ s }} & vec4<u32>(0x0F0F0F0Fu));
let hi{{ s }} = fp4_codes((q{{ s }} >> vec4<u32>(4u)) & vec4<u32>(0x0F0F0F0Fu));
let wa{{ s }} = vec4<u32>(lo{{ s }}.xy, hi{{ s }}.xy);
let wb{{ s }} = vec4<u32>(lo{{ s }}.zw, hi{{ s }}.zw);
let dd{{ s }} = d{{ s }} >> (({{ g }}) * 16u);
let sc{{ s }} = vec2<f32>(half_of_e4m3(dd{{ s }} & 255u), half_of_e4m3((dd{{ s }} >> 8u) & 255u));
let mn{{ s }} = sc{{ s }} * -12.0;
{$ endmacro $}
{$ macro functions() $}
{{ fp4() }}
// Half of an unsigned float with 4 exponent and 3 mantissa bits; 0x7f (no number) counts as 0.
fn half_of_e4m3(b: u32) -> f32 {
    let small = f32(b & 7u) * 0.0009765625;
    let normal = bitcast<f32>(((b & 127u) << 20u) + (119u << 23u));
    return select(select(normal, small, (b & 0x78u) == 0u), 0.0, b == 127u);
}
{$ endmacro $}
