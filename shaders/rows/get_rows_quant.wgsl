// dst[:, i1, i2, i3] = values of row ids[i1, i2, i3] of a block-format tensor, or of one in a
// texture.
//
// Bindings: weights (mul_mat/weights.wgsl), ids (u32), dst (f32 or vec4<f32>).
// Params: chunks (of 32 values a row), n_units, ids and dst strides, w_off, w_s1 .. w_s3 (blocks),
// row0 and row1: the rows that are bound. Grid: one lane per chunk, flat. Limits: none.
{$ import "mul_mat/weights.wgsl" as W with context $}
{{ decls }}
{$ from "include/rows.wgsl" import row_coords $}
{$ include "include/grid.wgsl" $}
{{ W.functions() }}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let unit_id = flat_group(wg) * {{ wg }}u + lane;
    if (unit_id >= P.n_units) { return; }
    let id = unit_id / P.chunks;
    let piece = unit_id - id * P.chunks;
{{ row_coords("id") }}
    let row = {{ ids }}[P.off_ids + i1 * P.ids_s0 + i2 * P.ids_s1 + i3 * P.ids_s2];
    if (row < P.row0 || row >= P.row1) { return; }
    let b = piece / {{ W.super }}u;
    let c = piece - b * {{ W.super }}u;
    let n = P.w_off + (row - P.row0) * P.w_s1 + i2 * P.w_s2 + i3 * P.w_s3 + b * {{ W.step }}u;
    {{ W.block("0", "n") }}
    {{ W.chunk("0", "n", "c") }}
    let y = P.off_dst + i1 * P.dst_s1 + i2 * P.dst_s2 + i3 * P.dst_s3 + piece * {{ 32 // vec }}u;
$$ for j in range(8)
    let value{{ j }} = {{ W.vec("0", j) }};
$$ if vec == 4
    {{ dst }}[y + {{ j }}u] = value{{ j }};
$$ else
$$ for k in range(4)
    {{ dst }}[y + {{ 4 * j + k }}u] = value{{ j }}[{{ k }}];
$$ endfor
$$ endif
$$ endfor
}
