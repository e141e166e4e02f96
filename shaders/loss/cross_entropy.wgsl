// Cross entropy of rows of logits against rows of probabilities (labels):
//   loss  dst[row] = scale * sum(labels * log softmax(logits))
//   back  dst = (softmax(logits) - labels) * scale * grad[0]
//
// Bindings: logits, labels, dst (f32), grad (f32, `back` only); dst may be logits or labels.
// Params: n, n1, n2, n_rows, strides in elements, scale.
// Grid: one workgroup of W lanes a row, flat. Limits: none on the row length.
{{ decls }}
{$ from "include/rows.wgsl" import row_coords $}
{$ include "include/grid.wgsl" $}
{$ from "include/reduce.wgsl" import reduction with context $}
{{ reduction("row_max", "max(a, b)") }}
{{ reduction("row_sum", "a + b") }}

@compute @workgroup_size({{ W }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(wg);
    if (row >= P.n_rows) { return; }
{{ row_coords("row") }}
    let x = P.off_logits + i1 * P.logits_s1 + i2 * P.logits_s2 + i3 * P.logits_s3;
    let p = P.off_labels + i1 * P.labels_s1 + i2 * P.labels_s2 + i3 * P.labels_s3;

    var top = -3.4e38;
    for (var i = lane; i < P.n; i += {{ W }}u) { top = max(top, {{ logits }}[x + i * P.logits_s0]); }
    top = row_max(lane, top);
    var acc = 0.0;
    for (var i = lane; i < P.n; i += {{ W }}u) { acc += exp({{ logits }}[x + i * P.logits_s0] - top); }
    acc = row_sum(lane, acc);
$$ if kind == "loss"
    let log_sum = log(acc);
    acc = 0.0;
    for (var i = lane; i < P.n; i += {{ W }}u) {
        acc += {{ labels }}[p + i * P.labels_s0] * ({{ logits }}[x + i * P.logits_s0] - top - log_sum);
    }
    acc = row_sum(lane, acc);
    if (lane == 0u) { {{ dst }}[P.off_dst + row] = acc * P.scale; }
$$ else
    let y = P.off_dst + i1 * P.dst_s1 + i2 * P.dst_s2 + i3 * P.dst_s3;
    let factor = P.scale * {{ grad }}[P.off_grad];
    let inv = 1.0 / acc;
    for (var i = lane; i < P.n; i += {{ W }}u) {
        let soft = exp({{ logits }}[x + i * P.logits_s0] - top) * inv;
        {{ dst }}[y + i * P.dst_s0] = (soft - {{ labels }}[p + i * P.labels_s0]) * factor;
    }
$$ endif
}
