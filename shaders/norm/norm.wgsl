// Normalisation of rows, optionally times a weight and plus a bias:
//   rms:  x / sqrt(mean(x^2) + eps)     norm: (x - mean) / sqrt(variance + eps)
//   l2:   x / max(sqrt(sum(x^2)), eps)
//
// Bindings: src0, dst, and weight, bias if fused (f32 or vec4<f32>); dst may be src0.
// Params: n (values a row, in elements of T), inv_n, eps, n1, n2 (rows), strides in T (values of src0 may lie apart).
// Grid: one workgroup of W lanes a row, flat. Limits: n_rows < 2^32.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ from "include/reduce.wgsl" import reduction with context $}
alias T = {{ elem }};
{{ reduction("sum", "a + b") }}
fn total(v: T) -> f32 {
    return {$ if vec == 4 $}dot(v, vec4<f32>(1.0)){$ else $}v{$ endif $};
}

@compute @workgroup_size({{ W }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(wg);
    if (row >= P.n_rows) { return; }
    let plane = row / P.n1;
    let i1 = row - plane * P.n1;
    let i3 = plane / P.n2;
    let i2 = plane - i3 * P.n2;
    let x = P.off_src0 + i1 * P.src0_s1 + i2 * P.src0_s2 + i3 * P.src0_s3;
    let y = P.off_dst + i1 * P.dst_s1 + i2 * P.dst_s2 + i3 * P.dst_s3;

    var acc = T(0.0);
$$ if kind == "norm"
    for (var i = lane; i < P.n; i += {{ W }}u) { acc += {{ src0 }}[x + i{$ if strided $} * P.src0_s0{$ endif $}]; }
    let mean = sum(lane, total(acc)) * P.inv_n;
    acc = T(0.0);
    for (var i = lane; i < P.n; i += {{ W }}u) {
        let d = {{ src0 }}[x + i{$ if strided $} * P.src0_s0{$ endif $}] - T(mean);
        acc += d * d;
    }
    let scale = 1.0 / sqrt(sum(lane, total(acc)) * P.inv_n + P.eps);
$$ else
    let mean = 0.0;
    for (var i = lane; i < P.n; i += {{ W }}u) {
        let v = {{ src0 }}[x + i{$ if strided $} * P.src0_s0{$ endif $}];
        acc += v * v;
    }
$$ if kind == "rms"
    let scale = 1.0 / sqrt(sum(lane, total(acc)) * P.inv_n + P.eps);
$$ else
    let scale = 1.0 / max(sqrt(sum(lane, total(acc))), P.eps);
$$ endif
$$ endif
$$ if mul
    let w = P.off_weight + i1 * P.weight_s1 + i2 * P.weight_s2 + i3 * P.weight_s3;
$$ endif
$$ if add
    let c = P.off_bias + i1 * P.bias_s1 + i2 * P.bias_s2 + i3 * P.bias_s3;
$$ endif
    for (var i = lane; i < P.n; i += {{ W }}u) {
        var v = {{ src0 }}[x + i{$ if strided $} * P.src0_s0{$ endif $}]{$ if kind == "norm" $} - T(mean){$ endif $};
        v *= scale;
$$ if mul
        v *= {{ weight }}[w + i];
$$ endif
$$ if add
        v += {{ bias }}[c + i];
$$ endif
        {{ dst }}[y + i] = v;
    }
}
