{#- Copies columns into a texture, one vec4<f32> a texel, column after column, matrix after matrix.

    Bindings: x (x.wgsl), out (storage texture, rgba32float).
    Params: quads (vec4s a column), n columns, ne2 matrices; total: vec4s in all. Grid: a lane per
    vec4, workgroups of 64, folded. Limits: none. -#}
{$ import "mul_mat/x.wgsl" as X with context $}
{$ include "include/grid.wgsl" $}
{$ include "include/texel.wgsl" $}
{{ decls }}
{{ X.functions() }}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(wg) * 64u + lane;
    if (at >= P.total) { return; }
    let column = at / P.quads;
    let i = at % P.quads;
    let matrix = column / P.n;
    let start = (column % P.n) * P.x_s1 + (matrix % P.ne2) * P.x_s2 + (matrix / P.ne2) * P.x_s3;
    textureStore({{ out }}, texel(at), {{ X.vec("start", "i") }});
}
