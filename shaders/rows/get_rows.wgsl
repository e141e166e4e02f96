// dst[i0, i1, i2, i3] = src0[i0, ids[i1, i2, i3], i2, i3] for plain types.
//
// Bindings: src0 (f32, vec4<f32>, u32 for i32, or 16-bit floats in u32 words), ids (u32), dst.
// Params: the walk's over dst, src0_row (elements from row to row), row0 and row1: the rows that
// are bound; others belong to another dispatch. Grid: one lane per unit. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ from "include/walk.wgsl" import coords with context $}
{$ from "include/scalar.wgsl" import base $}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
{{ coords() }}
    let row = {{ ids }}[P.off_ids + {{ at_ids }}];
    if (row < P.row0 || row >= P.row1) { return; }
    let at = {{ base("src0", src0_type) }} + {{ at_src0 }} + (row - P.row0) * P.src0_row;
    {{ dst }}[P.off_dst + {{ at_dst }}] =
        {$ if src0_type in ("f16", "bf16") $}{{ src0_type }}_of({{ src0 }}[at >> 1u], at){$ else $}{{ src0 }}[at]{$ endif $};
}
