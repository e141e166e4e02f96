// dst[i, ids[k]] += src0[i, k] for k = 0, 1, .. in this order, so that results repeat; dst holds
// zeros before. A lane owns a column: no two write one value.
//
// Bindings: src0 (f32, or 16-bit floats in u32 words), ids (u32), dst (f32). Params: n (columns),
// n_ids, strides in elements, dst_rows. Grid: one lane per column, flat. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ from "include/scalar.wgsl" import reader $}
{{ reader("src0", src0, src0_type, "i0 * P.src0_s0 + i1 * P.src0_s1") }}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = flat_group(wg) * {{ wg }}u + lane;
    if (i >= P.n) { return; }
    for (var k = 0u; k < P.n_ids; k++) {
        let row = {{ ids }}[P.off_ids + k * P.ids_s0];
        if (row < P.dst_rows) {
            {{ dst }}[P.off_dst + row * P.dst_s1 + i] += load_src0(i, k, 0u, 0u);
        }
    }
}
