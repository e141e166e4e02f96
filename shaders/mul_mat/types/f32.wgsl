{#- f32. In modes "quad" and "texel" a number n counts four values, in mode "elem" one. -#}
{$ set super, inner = 1, 1 $}
{$ set quad_values = 4 $}
{$ macro block(s, n) $}{$ endmacro $}
{$ macro load(s, n, g) $}{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let wn{{ s }} = {{ n }};
{$ endmacro $}
{$ macro vec(s, j) $}{{ tail("wn" ~ s, j ~ "u") }}{$ endmacro $}
{#- Four values from value 4 i on of the row (or chunk) that starts at n. -#}
{$ macro tail(n, i) $}
{$ if w_mode == "quad" $}
bitcast<vec4<f32>>({{ w }}[P.off_w + {{ n }} + {{ i }}])
{$- elif w_mode == "texel" -$}
bitcast<vec4<f32>>(textureLoad({{ w_q }}, texel({{ n }} + {{ i }})))
{$- else -$}
f32x4_at(({{ n }}) + ({{ i }}) * 4u)
{$- endif $}
{$ endmacro $}
{$ macro functions() $}
{$ if w_mode == "elem" $}
fn f32x4_at(n: u32) -> vec4<f32> {
    let i = P.off_w + n;
    return bitcast<vec4<f32>>(vec4<u32>({{ w }}[i], {{ w }}[i + 1u], {{ w }}[i + 2u], {{ w }}[i + 3u]));
}
{$ endif $}
{$ endmacro $}
