// dst[i0, ids[i1, i2, i3], i2, i3] = src0[i0, i1, i2, i3], ids repeating along dimensions 2 and 3.
// Rows past the end of dst are left out.
//
// Bindings: src0 (f32, vec4<f32>, or 16-bit floats in u32 words), ids (u32: an i64 takes two), dst.
// Params: the walk's over src0, dst_row (elements from row to row), dst_rows.
// Grid: one lane per unit of the walk. Limits: row numbers below 2^32.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ from "include/walk.wgsl" import coords with context $}
{$ from "include/scalar.wgsl" import reader, writer $}
{{ reader("src0", src0, src0_type, at_src0, vtype) }}
{{ writer("dst", dst, dst_type, "i0", store, vtype) }}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
{{ coords() }}
    let row = {{ ids }}[P.off_ids + ({{ at_ids }}) * {{ id_words }}u];
    if (row >= P.dst_rows) { return; }
$$ if store == "pair"
    let lo = load_src0(2u * i0, i1, i2, i3);
    let hi = load_src0(2u * i0 + 1u, i1, i2, i3);
    store_dst(row * P.dst_row + place(2u * i0, i1, i2, i3), 0u, 0u, 0u, lo, hi);
$$ else
    store_dst(row * P.dst_row + place(i0, i1, i2, i3), 0u, 0u, 0u, load_src0(i0, i1, i2, i3));
$$ endif
}

fn place(i0: u32, i1: u32, i2: u32, i3: u32) -> u32 {
    return {{ at_dst }};
}
