// dst[i, j] = sum over k of src0[i, k] * src1[j, k], src0 in a block format; matrices of src0 are
// shared by ratio2 x ratio3 neighbours.
//
// Bindings: weights (mul_mat/weights.wgsl), src1, dst (f32). Params: chunks (of 32 values a row), n,
// k; n2 (planes), ratio2, ratio3, strides in elements, w_off, w_s1 .. w_s3 (blocks), n_units.
// Grid: one lane per chunk and COLS columns of dst, flat. Limits: none.
{$ import "mul_mat/weights.wgsl" as W with context $}
{{ decls }}
{$ include "include/grid.wgsl" $}
{{ W.functions() }}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let unit_id = flat_group(wg) * {{ wg }}u + lane;
    if (unit_id >= P.n_units) { return; }
    let strip = unit_id / P.chunks;
    let piece = unit_id - strip * P.chunks;
    let down = (P.n + {{ COLS - 1 }}u) / {{ COLS }}u;
    let plane = strip / down;
    let first = (strip - plane * down) * {{ COLS }}u;
    let i3 = plane / P.n2;
    let i2 = plane - i3 * P.n2;
    let b = piece / {{ W.super }}u;
    let c = piece - b * {{ W.super }}u;
    let matrix = P.w_off + (i2 / P.ratio2) * P.w_s2 + (i3 / P.ratio3) * P.w_s3 + b;
    let planes = P.off_src1 + i2 * P.src1_s2 + i3 * P.src1_s3;
$$ for t in range(COLS)
    let column{{ t }} = planes + min(first + {{ t }}u, P.n - 1u) * P.src1_s0;
$$ for j in range(8)
    var acc{{ t }}_{{ j }} = vec4<f32>(0.0);
$$ endfor
$$ endfor
    for (var k = 0u; k < P.k; k++) {
        let n = matrix + k * P.w_s1;
        {{ W.block("0", "n") }}
        {{ W.chunk("0", "n", "c") }}
$$ for t in range(COLS)
        let factor{{ t }} = {{ src1 }}[column{{ t }} + k * P.src1_s1];
$$ endfor
$$ for j in range(8)
        let value{{ j }} = {{ W.vec("0", j) }};
$$ for t in range(COLS)
        acc{{ t }}_{{ j }} += value{{ j }} * factor{{ t }};
$$ endfor
$$ endfor
    }
    let out = P.off_dst + i2 * P.dst_s2 + i3 * P.dst_s3 + piece * 32u;
$$ for t in range(COLS)
    if (first + {{ t }}u < P.n) {
        let z = out + (first + {{ t }}u) * P.dst_s1;
$$ for j in range(8)
$$ for d in range(4)
        {{ dst }}[z + {{ 4 * j + d }}u] = acc{{ t }}_{{ j }}[{{ d }}];
$$ endfor
$$ endfor
    }
$$ endfor
}
