// dst[ox, oy, oz, o, n] = sum over c, kz, ky, kx of x[ox sx + kx dx - px, .., c, n]
// w[kx, ky, kz, c, o], x being zero outside. Images are volumes of one plane.
//
// Bindings: x, w, dst (f32, or 16-bit floats in u32 words). Neighbouring lanes share the weights.
// Params: kx, ky, kz kernel sizes, sx.. strides, px.. paddings, dx.. dilations; nx, ny, nz sizes of
// x; channels, n_out; ox, oy, oz, n_at (places, batch included); steps in elements: x_s0 .. x_s2,
// x_sc, x_sn, w_s0 .. w_s2, w_sc, w_so, dst_s0 .. dst_s2, dst_so, dst_sn; chunks (workgroups for
// n_at places). Grid: one lane per place and R output channels, chunks * ceil(n_out / R) workgroups,
// flat. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ from "include/units.wgsl" import reader with context $}
{$ from "include/scalar.wgsl" import writer $}
{{ reader("x", x, x_type) }}
{{ reader("w", w, w_type) }}
{{ writer("dst", dst, dst_type, "i0", store) }}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let group = flat_group(wg);
    let o = group / P.chunks * {{ R }}u;
    let at = group % P.chunks * {{ wg }}u + lane;
    if (at >= P.n_at || o >= P.n_out) { return; }
    let line = at / P.ox;
    let plane = line / P.oy;
    let n = plane / P.oz;
    let ox = at - line * P.ox;
    let oy = line - plane * P.oy;
    let oz = plane - n * P.oz;
$$ for r in range(R)
    let w{{ r }} = min(o + {{ r }}u, P.n_out - 1u) * P.w_so;
    var y{{ r }} = 0.0;
$$ endfor
    for (var c = 0u; c < P.channels; c++) {
        for (var kz = 0u; kz < P.kz; kz++) {
            // places left of x wrap round to large numbers
            let iz = oz * P.sz + kz * P.dz - P.pz;
            if (iz >= P.nz) { continue; }
            for (var ky = 0u; ky < P.ky; ky++) {
                let iy = oy * P.sy + ky * P.dy - P.py;
                if (iy >= P.ny) { continue; }
                let xs = iy * P.x_s1 + iz * P.x_s2 + c * P.x_sc + n * P.x_sn;
                let ws = ky * P.w_s1 + kz * P.w_s2 + c * P.w_sc;
                for (var kx = 0u; kx < P.kx; kx++) {
                    let ix = ox * P.sx + kx * P.dx - P.px;
                    if (ix >= P.nx) { continue; }
                    let v = x_at(xs + ix * P.x_s0);
                    let k = ws + kx * P.w_s0;
$$ for r in range(R)
                    y{{ r }} += v * w_at(k + w{{ r }});
$$ endfor
                }
            }
        }
    }
    let to = ox * P.dst_s0 + oy * P.dst_s1 + oz * P.dst_s2 + n * P.dst_sn + o * P.dst_so;
    store_dst(to, 0u, 0u, 0u, y0);
$$ for r in range(1, R)
    if (o + {{ r }}u < P.n_out) { store_dst(to + {{ r }}u * P.dst_so, 0u, 0u, 0u, y{{ r }}); }
$$ endfor
}
