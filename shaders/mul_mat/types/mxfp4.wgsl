{#- mxfp4: value = 2^(e - 128) * doubled 4-bit float; low nibbles before high ones. Below e = 2 the
    scale is no normal float and may be taken for 0. -#}
{$ from "mul_mat/fetch.wgsl" import quad, byte with context $}
{$ from "mul_mat/types/levels.wgsl" import fp4 $}
{$ set super, inner = 1, 1 $}
{$ macro block(s, n) $}{$ endmacro $}
{$ macro load(s, n, g) $}{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let q{{ s }} = {{ quad("q", n, "0u") }};
let wa{{ s }} = fp4_codes(q{{ s }} & vec4<u32>(0x0F0F0F0Fu));
let wb{{ s }} = fp4_codes((q{{ s }} >> vec4<u32>(4u)) & vec4<u32>(0x0F0F0F0Fu));
let sc{{ s }} = vec2<f32>(half_power(({{ byte("d", n) }}) & 255u));
let mn{{ s }} = sc{{ s }} * -12.0;
{$ endmacro $}
{$ macro functions() $}
{{ fp4() }}
fn half_power(e: u32) -> f32 {
    return bitcast<f32>(select((e - 1u) << 23u, 0x00200000u << e, e < 2u));
}
{$ endmacro $}
