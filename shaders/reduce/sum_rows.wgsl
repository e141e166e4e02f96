// dst[row] = scale * sum of the row.
//
// Bindings: src0, dst (f32). Params: n, n1, n2, n_rows, strides in elements, scale.
// Grid: one workgroup of W lanes a row, flat. Limits: none.
{{ decls }}
{$ from "include/rows.wgsl" import row_coords $}
{$ include "include/grid.wgsl" $}
{$ from "include/reduce.wgsl" import reduction with context $}
{{ reduction("sum", "a + b") }}

@compute @workgroup_size({{ W }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(wg);
    if (row >= P.n_rows) { return; }
{{ row_coords("row") }}
    let x = P.off_src0 + i1 * P.src0_s1 + i2 * P.src0_s2 + i3 * P.src0_s3;
    var acc = 0.0;
    for (var i = lane; i < P.n; i += {{ W }}u) { acc += {{ src0 }}[x + i * P.src0_s0]; }
    acc = sum(lane, acc);
    if (lane == 0u) { {{ dst }}[P.off_dst + row] = acc * P.scale; }
}
