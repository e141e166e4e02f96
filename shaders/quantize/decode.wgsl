// dst = values of a tensor in a block format, plus src1 where it is given.
//
// Bindings: weights (mul_mat/weights.wgsl), src1 (f32, or 16-bit floats in u32 words), dst (f32,
// vec4<f32>, or 16-bit floats in u32 words). Params: chunks (of 32 values a row), n1, n2, n_units,
// strides of dst and src1 in their elements (dst: in vec4s), w_off, w_s1 .. w_s3 (blocks).
// Grid: one lane per chunk, flat. Limits: none.
{$ import "mul_mat/weights.wgsl" as W with context $}
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ from "include/rows.wgsl" import row_coords $}
{$ from "include/scalar.wgsl" import reader, writer $}
{{ W.functions() }}
$$ if src1 is defined
{{ reader("src1", src1, src1_type, "i0 * P.src1_s0 + i1 * P.src1_s1 + i2 * P.src1_s2 + i3 * P.src1_s3") }}
$$ endif
{{ writer("dst", dst, dst_type, "i0 * P.dst_s0 + i1 * P.dst_s1 + i2 * P.dst_s2 + i3 * P.dst_s3", store, vtype) }}

fn store_four(i0: u32, i1: u32, i2: u32, i3: u32, values: vec4<f32>) {
    var v = values;
$$ if src1 is defined
    v += vec4<f32>(load_src1(i0, i1, i2, i3), load_src1(i0 + 1u, i1, i2, i3),
        load_src1(i0 + 2u, i1, i2, i3), load_src1(i0 + 3u, i1, i2, i3));
$$ endif
$$ if vtype == "vec4<f32>"
    store_dst(i0 >> 2u, i1, i2, i3, v);
$$ elif store == "pair"
    store_dst(i0, i1, i2, i3, v.x, v.y);
    store_dst(i0 + 2u, i1, i2, i3, v.z, v.w);
$$ else
    for (var k = 0u; k < 4u; k++) {
        store_dst(i0 + k, i1, i2, i3, v[k]);
    }
$$ endif
}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let unit_id = flat_group(wg) * {{ wg }}u + lane;
    if (unit_id >= P.n_units) { return; }
    let row = unit_id / P.chunks;
    let piece = unit_id - row * P.chunks;
{{ row_coords("row") }}
    let b = piece / {{ W.super }}u;
    let c = piece - b * {{ W.super }}u;
    let n = P.w_off + i1 * P.w_s1 + i2 * P.w_s2 + i3 * P.w_s3 + b;
    {{ W.block("0", "n") }}
    {{ W.chunk("0", "n", "c") }}
$$ for j in range(8)
    store_four(piece * 32u + {{ 4 * j }}u, i1, i2, i3, {{ W.vec("0", j) }});
$$ endfor
}
