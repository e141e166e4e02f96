// dst[i0, i1, i2, i3] = sum over the taps of i1 and i0 of weight1 * weight0 * src0, with one tap for
// each of i2 and i3.
//
// Bindings: src0, dst (f32), taps (vec2<u32>: index, bits of the weight; those of dimension 0 first).
// Params: the walk's over dst, taps0 and taps1 (a value), at1..at3 (first tap of a dimension),
// src0_s0..3 (elements). Grid: one lane per value. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ from "include/walk.wgsl" import coords with context $}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
{{ coords() }}
    let plane = P.off_src0 + {{ taps }}[P.off_taps + P.at2 + i2].x * P.src0_s2
        + {{ taps }}[P.off_taps + P.at3 + i3].x * P.src0_s3;
    let columns = P.off_taps + i0 * P.taps0;
    let rows = P.off_taps + P.at1 + i1 * P.taps1;
    var total = 0.0;
    for (var k1 = 0u; k1 < P.taps1; k1++) {
        let row = {{ taps }}[rows + k1];
        if (row.y == 0u) { continue; }
        let x = plane + row.x * P.src0_s1;
        var acc = 0.0;
        for (var k0 = 0u; k0 < P.taps0; k0++) {
            let column = {{ taps }}[columns + k0];
            if (column.y == 0u) { continue; }
            acc += bitcast<f32>(column.y) * {{ src0 }}[x + column.x * P.src0_s0];
        }
        total += bitcast<f32>(row.y) * acc;
    }
    {{ dst }}[P.off_dst + {{ at_dst }}] = total;
}
