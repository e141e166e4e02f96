// dst[i0, slot, token] = src0[i0, slot, token] + src1[i0, ids[slot, token]].
//
// Bindings: src0, src1, dst (f32; dst may be src0), ids (u32). Params: the walk's over dst,
// src1_row (elements from row to row). Grid: one lane per value. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ from "include/walk.wgsl" import coords with context $}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
{{ coords() }}
    let row = {{ ids }}[P.off_ids + {{ at_ids }}];
    let y = {{ src1 }}[P.off_src1 + row * P.src1_row + {{ at_src1 }}];
    {{ dst }}[P.off_dst + {{ at_dst }}] = {{ src0 }}[P.off_src0 + {{ at_src0 }}] + y;
}
