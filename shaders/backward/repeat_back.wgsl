// dst[i] = sum over the tiles of src0 that repeat dst, P.tiles0 .. P.tiles3 of them along each
// dimension.
//
// Bindings: src0, dst (f32). Params: the walk's over dst; tiles0..3, src0_t0..3 (elements from tile
// to tile). Grid: one lane per value of dst. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ from "include/walk.wgsl" import coords with context $}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
{{ coords() }}
    let first = P.off_src0 + {{ at_src0 }};
    var total = 0.0;
    for (var k3 = 0u; k3 < P.tiles3; k3++) {
        for (var k2 = 0u; k2 < P.tiles2; k2++) {
            for (var k1 = 0u; k1 < P.tiles1; k1++) {
                let x = first + k1 * P.src0_t1 + k2 * P.src0_t2 + k3 * P.src0_t3;
                for (var k0 = 0u; k0 < P.tiles0; k0++) {
                    total += {{ src0 }}[x + k0 * P.src0_t0];
                }
            }
        }
    }
    {{ dst }}[P.off_dst + {{ at_dst }}] = total;
}
