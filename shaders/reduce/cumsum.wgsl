// dst[i] = sum of src0[0..i] of each row. A lane adds up its share of the row, then begins from the
// sum of the shares before it. Values of a row may lie apart.
//
// Bindings: src0, dst (f32; dst may be src0). Params: n, share (values of a lane), n1, n2, n_rows,
// strides in elements. Grid: one workgroup of W lanes a row, flat. Limits: none.
{{ decls }}
{$ from "include/rows.wgsl" import row_coords $}
{$ include "include/grid.wgsl" $}
var<workgroup> shares: array<f32, {{ W }}>;

@compute @workgroup_size({{ W }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(wg);
    if (row >= P.n_rows) { return; }
{{ row_coords("row") }}
    let x = P.off_src0 + i1 * P.src0_s1 + i2 * P.src0_s2 + i3 * P.src0_s3;
    let y = P.off_dst + i1 * P.dst_s1 + i2 * P.dst_s2 + i3 * P.dst_s3;
    let begin = min(lane * P.share, P.n);
    let end = min(begin + P.share, P.n);
    var acc = 0.0;
    for (var i = begin; i < end; i++) { acc += {{ src0 }}[x + i * P.src0_s0]; }
    shares[lane] = acc;
    workgroupBarrier();
    acc = 0.0;
    for (var k = 0u; k < lane; k++) { acc += shares[k]; }
    for (var i = begin; i < end; i++) {
        acc += {{ src0 }}[x + i * P.src0_s0];
        {{ dst }}[y + i * P.dst_s0] = acc;
    }
}
