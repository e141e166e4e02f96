// Gradients of row functions, dy being the gradient that arrives:
//   rms      dx = (dy - x sum(x dy) / (sum(x^2) + n eps)) / sqrt(mean(x^2) + eps)
//   softmax  dx = scale x (dy - sum(x dy)), x being the softmax
//
// Bindings: dy, x, dst (f32; dst may be dy or x). Params: n, n1, n2, n_rows, strides in elements;
// inv_n, eps or scale. Grid: one workgroup of W lanes a row, flat. Limits: none on the row length.
{{ decls }}
{$ from "include/rows.wgsl" import row_coords $}
{$ include "include/grid.wgsl" $}
{$ from "include/reduce.wgsl" import reduction with context $}
{{ reduction("sums", "a + b", "vec2<f32>") }}

@compute @workgroup_size({{ W }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(wg);
    if (row >= P.n_rows) { return; }
{{ row_coords("row") }}
    let g = P.off_dy + i1 * P.dy_s1 + i2 * P.dy_s2 + i3 * P.dy_s3;
    let x = P.off_x + i1 * P.x_s1 + i2 * P.x_s2 + i3 * P.x_s3;
    let y = P.off_dst + i1 * P.dst_s1 + i2 * P.dst_s2 + i3 * P.dst_s3;

    var acc = vec2<f32>(0.0);
    for (var i = lane; i < P.n; i += {{ W }}u) {
        let v = {{ x }}[x + i * P.x_s0];
        acc += v * vec2<f32>({{ dy }}[g + i * P.dy_s0], v);
    }
    acc = sums(lane, acc);
$$ if kind == "rms"
    let along = acc.x / (acc.y + f32(P.n) * P.eps);
    let scale = 1.0 / sqrt(acc.y * P.inv_n + P.eps);
$$ endif
    for (var i = lane; i < P.n; i += {{ W }}u) {
        let v = {{ x }}[x + i * P.x_s0];
        let d = {{ dy }}[g + i * P.dy_s0];
$$ if kind == "rms"
        {{ dst }}[y + i * P.dst_s0] = (d - v * along) * scale;
$$ else
        {{ dst }}[y + i * P.dst_s0] = P.scale * v * (d - acc.x);
$$ endif
    }
}
