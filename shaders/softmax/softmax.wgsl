// softmax(x * scale + slope * mask) over rows, with attention sinks. A row whose mask hides
// everything gives zeros.
//
// Bindings: src0, dst (f32, dst may be src0), mask (f32, or f16 in u32 words), sinks (f32).
// Params: n, n1, n2, n_rows, strides in elements, scale, slope_lo, slope_hi, n_head_log2.
// Grid: one workgroup of W lanes a row, flat. Limits: none on the row length.
{{ decls }}
{$ from "include/rows.wgsl" import row_coords $}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ from "include/reduce.wgsl" import reduction with context $}
{{ reduction("row_max", "max(a, b)") }}
{{ reduction("row_sum", "a + b") }}
// Stands for minus infinity, which drivers may assume not to exist.
const HIDDEN = -3.0e38;

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
$$ if mask_type
    let m = i1 * P.mask_s1 + (i2 % P.mask_n2) * P.mask_s2 + (i3 % P.mask_n3) * P.mask_s3;
$$ if alibi
    // 2^(-max_bias * k / n), the two branches covering head counts that are no power of two
    var slope = exp2(P.slope_lo * f32(i2 + 1u));
    if (i2 >= P.n_head_log2) { slope = exp2(P.slope_hi * f32(2u * (i2 - P.n_head_log2) + 1u)); }
$$ else
    let slope = 1.0;
$$ endif
$$ endif

    var top = HIDDEN;
    for (var i = lane; i < P.n; i += {{ W }}u) {
        var v = {{ src0 }}[x + i] * P.scale;
$$ if mask_type == "f16"
        let at = P.off_mask * 2u + P.mask_h + m + i;
        v += slope * f16_of({{ mask }}[at >> 1u], at);
$$ elif mask_type
        v += slope * {{ mask }}[P.off_mask + m + i];
$$ endif
        v = max(v, HIDDEN);
        {{ dst }}[y + i] = v;
        top = max(top, v);
    }
    top = row_max(lane, top);
$$ if has_sinks
    let sink = {{ sinks }}[P.off_sinks + i2];
    top = max(top, sink);
$$ endif

    var acc = 0.0;
    for (var i = lane; i < P.n; i += {{ W }}u) {
        let v = {{ dst }}[y + i];
        let e = select(exp(v - top), 0.0, v <= HIDDEN);
        {{ dst }}[y + i] = e;
        acc += e;
    }
    acc = row_sum(lane, acc);
$$ if has_sinks
    acc += exp(sink - top);
$$ endif
    let inv = select(1.0 / acc, 0.0, acc == 0.0);
    for (var i = lane; i < P.n; i += {{ W }}u) {
        {{ dst }}[y + i] *= inv;
    }
}
