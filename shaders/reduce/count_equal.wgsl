// With `compare`: dst[row] = how many values of a row of src0 and src1 are equal. Without: dst[0] =
// sum of src0[0..n], dst[1] = 0, a 64-bit number.
//
// Bindings: src0, src1 (with `compare`), dst (u32). Params: n, n_rows; with `compare` n1, n2, strides
// in elements. Grid: one workgroup of W lanes a row, flat. Limits: fewer than 2^32 values.
{{ decls }}
{$ from "include/rows.wgsl" import row_coords $}
{$ include "include/grid.wgsl" $}
{$ from "include/reduce.wgsl" import reduction with context $}
{{ reduction("sum", "a + b", "u32") }}

@compute @workgroup_size({{ W }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(wg);
    if (row >= P.n_rows) { return; }
    var count = 0u;
$$ if compare
{{ row_coords("row") }}
    let x = P.off_src0 + i1 * P.src0_s1 + i2 * P.src0_s2 + i3 * P.src0_s3;
    let z = P.off_src1 + i1 * P.src1_s1 + i2 * P.src1_s2 + i3 * P.src1_s3;
    for (var i = lane; i < P.n; i += {{ W }}u) {
        count += select(0u, 1u, {{ src0 }}[x + i * P.src0_s0] == {{ src1 }}[z + i * P.src1_s0]);
    }
$$ else
    for (var i = lane; i < P.n; i += {{ W }}u) { count += {{ src0 }}[P.off_src0 + i]; }
$$ endif
    count = sum(lane, count);
    if (lane == 0u) {
        {{ dst }}[P.off_dst + row] = count;
$$ if not compare
        {{ dst }}[P.off_dst + 1u] = 0u;
$$ endif
    }
}
