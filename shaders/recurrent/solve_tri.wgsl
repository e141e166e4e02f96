// X with A X = B, A lower triangular: x[i] = (b[i] - sum over j < i of A[i, j] x[j]) / A[i, i].
// A lane solves one column and reads back what it wrote.
//
// Bindings: a, b, dst (f32). Params: n, columns, n2, n_lanes, steps a_s0 .. dst_s3 in elements.
// Grid: one lane per column and matrix, flat. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let id = flat_group(wg) * {{ wg }}u + lane;
    if (id >= P.n_lanes) { return; }
    let matrix = id / P.columns;
    let column = id - matrix * P.columns;
    let i3 = matrix / P.n2;
    let i2 = matrix - i3 * P.n2;
    let from_a = P.off_a + i2 * P.a_s2 + i3 * P.a_s3;
    let from_b = P.off_b + column * P.b_s0 + i2 * P.b_s2 + i3 * P.b_s3;
    let to = P.off_dst + column * P.dst_s0 + i2 * P.dst_s2 + i3 * P.dst_s3;
    for (var i = 0u; i < P.n; i++) {
        let row = from_a + i * P.a_s1;
        var known = 0.0;
        for (var j = 0u; j < i; j++) {
            known += {{ a }}[row + j * P.a_s0] * {{ dst }}[to + j * P.dst_s1];
        }
        {{ dst }}[to + i * P.dst_s1] = ({{ b }}[from_b + i * P.b_s1] - known) / {{ a }}[row + i * P.a_s0];
    }
}
