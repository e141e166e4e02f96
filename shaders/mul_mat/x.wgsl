{#- Columns of the second operand, four values at a time. Macros only.

    x_mode "vec4"  operand `x` is array<vec4<f32>>; a column's number counts vec4s
           "texel" the same in a texture, put there by stage.wgsl; P.off_x is unused
           "f32"   operand `x` is array<f32>; a number counts values
           "f16", "bf16"  operand `x` is array<u32>; a number counts values, from byte P.x_byte on
    All arithmetic after the load is f32. -#}
{$ macro vec(n, i) $}
{$ if x_mode == "vec4" $}
{{ x }}[P.off_x + {{ n }} + {{ i }}]
{$- elif x_mode == "texel" -$}
textureLoad({{ x }}, texel({{ n }} + {{ i }}))
{$- else -$}
x_at(({{ n }}) + ({{ i }}) * 4u)
{$- endif $}
{$ endmacro $}
{$ macro functions() $}
{$ if x_mode == "f32" $}
fn x_at(n: u32) -> vec4<f32> {
    let i = P.off_x + n;
    return vec4<f32>({{ x }}[i], {{ x }}[i + 1u], {{ x }}[i + 2u], {{ x }}[i + 3u]);
}
{$ elif x_mode in ("f16", "bf16") $}
fn x_half(n: u32) -> f32 {
    let at = n + (P.x_byte >> 1u);
    let bits = ({{ x }}[P.off_x + (at >> 1u)] >> ((at & 1u) * 16u)) & 0xFFFFu;
{$ if x_mode == "f16" $}
    return unpack2x16float(bits).x;
{$ else $}
    return bitcast<f32>(bits << 16u);
{$ endif $}
}
fn x_at(n: u32) -> vec4<f32> {
    return vec4<f32>(x_half(n), x_half(n + 1u), x_half(n + 2u), x_half(n + 3u));
}
{$ endif $}
{$ endmacro $}
