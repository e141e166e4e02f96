// Normalisation of rows, optionally times a weight and plus a bias:
//   rms:  x / sqrt(mean(x^2) + eps)     norm: (x - mean) / sqrt(variance + eps)
//   l2:   x / max(sqrt(sum(x^2)), eps)
// With `pre_add` (rms only) x is src0 + src1, which is stored in `added` as well.
//
// Bindings: src0, dst; src1, added, weight, bias if fused (f32 or vec4<f32>); results may lie where
// operands do; out (storage texture, rgba32float) if `stage`: a second copy of dst for products.
// Params: n (values a row, in elements of T), inv_n, eps, n1, n2, n_rows, strides in T; values of
// src0 are src0_s0 apart if `strided`.
// Grid: one workgroup of W lanes a row, flat. Limits: n_rows < 2^32.
{{ decls }}
{$ include "include/grid.wgsl" $}
$$ if stage
{$ include "include/texel.wgsl" $}
$$ endif
{$ from "include/reduce.wgsl" import reduction with context $}
alias T = {{ elem }};
{{ reduction("sum", "a + b") }}
fn total(v: T) -> f32 {
    return {$ if vec == 4 $}dot(v, vec4<f32>(1.0)){$ else $}v{$ endif $};
}
{$ macro start(name) $}P.off_{{ name }} + i1 * P.{{ name }}_s1 + i2 * P.{{ name }}_s2 + i3 * P.{{ name }}_s3{$ endmacro $}
{$ macro loaded() $}{{ src0 }}[x + i{$ if strided $} * P.src0_s0{$ endif $}]{$ endmacro $}

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
    let x = {{ start("src0") }};
    let y = {{ start("dst") }};

    var acc = T(0.0);
$$ if kind == "norm"
    for (var i = lane; i < P.n; i += {{ W }}u) { acc += {{ loaded() }}; }
    let mean = sum(lane, total(acc)) * P.inv_n;
    acc = T(0.0);
    for (var i = lane; i < P.n; i += {{ W }}u) {
        let d = {{ loaded() }} - T(mean);
        acc += d * d;
    }
    let scale = 1.0 / sqrt(sum(lane, total(acc)) * P.inv_n + P.eps);
$$ else
$$ if pre_add
    let z = {{ start("src1") }};
    let s = {{ start("added") }};
$$ endif
    for (var i = lane; i < P.n; i += {{ W }}u) {
        let v = {{ loaded() }}{$ if pre_add $} + {{ src1 }}[z + i]{$ endif $};
$$ if pre_add
        {{ added }}[s + i] = v;
$$ endif
        acc += v * v;
    }
$$ if kind == "rms"
    let scale = 1.0 / sqrt(sum(lane, total(acc)) * P.inv_n + P.eps);
$$ else
    let scale = 1.0 / max(sqrt(sum(lane, total(acc))), P.eps);
$$ endif
$$ endif
$$ if mul
    let w = {{ start("weight") }};
$$ endif
$$ if add
    let c = {{ start("bias") }};
$$ endif
    for (var i = lane; i < P.n; i += {{ W }}u) {
        var v = {$ if pre_add $}{{ added }}[s + i]{$ else $}{{ loaded() }}{$ endif $}{$ if kind == "norm" $} - T(mean){$ endif $};
        v *= scale;
$$ if mul
        v *= {{ weight }}[w + i];
$$ endif
$$ if add
        v += {{ bias }}[c + i];
$$ endif
        {{ dst }}[y + i] = v;
$$ if stage
        textureStore({{ out }}, texel(row * P.n + i), v);
$$ endif
    }
}
