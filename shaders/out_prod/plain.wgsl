// dst[i, j] = sum over k of src0[i, k] * src1[j, k] for plain types; matrices of src0 are shared by
// ratio2 x ratio3 neighbours.
//
// Bindings: src0 (f32, or 16-bit floats in u32 words), src1, dst (f32). Params: m, n, k; n2 (planes),
// ratio2, ratio3, strides in elements, n_units. Grid: one lane per 4 x 4 values of dst, flat.
// Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ from "include/scalar.wgsl" import reader $}
{{ reader("src0", src0, src0_type, "i0 * P.src0_s0 + i1 * P.src0_s1 + i2 * P.src0_s2 + i3 * P.src0_s3") }}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let unit_id = flat_group(wg) * {{ wg }}u + lane;
    if (unit_id >= P.n_units) { return; }
    let across = (P.m + 3u) / 4u;
    let down = (P.n + 3u) / 4u;
    let strip = unit_id / across;
    let plane = strip / down;
    let i3 = plane / P.n2;
    let i2 = plane - i3 * P.n2;
    // past the edge the last row or column is computed again and not stored
    let i = vec4<u32>((unit_id - strip * across) * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    let j = vec4<u32>((strip - plane * down) * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    let a = min(i, vec4<u32>(P.m - 1u));
    let b = P.off_src1 + min(j, vec4<u32>(P.n - 1u)) * P.src1_s0 + i2 * P.src1_s2 + i3 * P.src1_s3;
    let p2 = i2 / P.ratio2;
    let p3 = i3 / P.ratio3;
$$ for c in range(4)
    var acc{{ c }} = vec4<f32>(0.0);
$$ endfor
    for (var k = 0u; k < P.k; k++) {
        let x = vec4<f32>(load_src0(a.x, k, p2, p3), load_src0(a.y, k, p2, p3),
            load_src0(a.z, k, p2, p3), load_src0(a.w, k, p2, p3));
        let y = b + k * P.src1_s1;
$$ for c in range(4)
        acc{{ c }} += x * {{ src1 }}[y[{{ c }}]];
$$ endfor
    }
    let out = P.off_dst + i2 * P.dst_s2 + i3 * P.dst_s3;
$$ for c in range(4)
    if (j[{{ c }}] < P.n) {
        let z = out + j[{{ c }}] * P.dst_s1;
$$ for d in range(4)
        if (i[{{ d }}] < P.m) { {{ dst }}[z + i[{{ d }}]] = acc{{ c }}[{{ d }}]; }
$$ endfor
    }
$$ endfor
}
