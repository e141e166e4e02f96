// dst[row] = sum of a row of src0, to about twice f32's precision: each partial sum carries what
// rounding took from it (Knuth's two-sum), since a sum near zero is all that rounding leaves.
//
// Bindings: src0: f32, or vec2<f32> (sum, rest) with `pairs_in`; dst likewise with `pairs_out`.
// Params: n, n1, n2, n_rows, strides in elements, zero: 0.
// Grid: one workgroup of W lanes a row, flat. Limits: none.
{{ decls }}
{$ from "include/rows.wgsl" import row_coords $}
{$ include "include/grid.wgsl" $}
{$ from "include/reduce.wgsl" import reduction with context $}

// Compilers take (a + b) - a for b; a number they do not know stops them.
fn rounded(v: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(v) ^ P.zero);
}
fn plus(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
    let s = rounded(a.x + b.x);
    let of_b = rounded(s - a.x);
    let rest = (a.x - rounded(s - of_b)) + (b.x - of_b);
    return vec2<f32>(s, a.y + b.y + rest);
}
{{ reduction("sum", "plus(a, b)", "vec2<f32>") }}

@compute @workgroup_size({{ W }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(wg);
    if (row >= P.n_rows) { return; }
{{ row_coords("row") }}
    let x = P.off_src0 + i1 * P.src0_s1 + i2 * P.src0_s2 + i3 * P.src0_s3;
    var acc = vec2<f32>(0.0);
    for (var i = lane; i < P.n; i += {{ W }}u) {
        let v = {{ src0 }}[x + i * P.src0_s0];
        acc = plus(acc, {$ if pairs_in $}v{$ else $}vec2<f32>(v, 0.0){$ endif $});
    }
    acc = sum(lane, acc);
    if (lane == 0u) {
        {{ dst }}[P.off_dst + row] = {$ if pairs_out $}acc{$ else $}acc.x + acc.y{$ endif $};
    }
}
