// dst[ox, oy, c, n] = sum over ky, kx of x[ox sx + kx dx - px, oy sy + ky dy - py, c, n] w[kx, ky, c],
// x being zero outside.
//
// Bindings: x, w, dst (f32, or 16-bit floats in u32 words).
// Params: those of include/units.wgsl; kx, ky, sx, sy, px, py, dx, dy; nx, ny sizes of x; x_s0 ..
// x_s3, w_s0, w_s1, w_sc steps in elements. Grid: one lane per unit, flat. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ from "include/units.wgsl" import reader, main with context $}
{{ reader("x", x, x_type) }}
{{ reader("w", w, w_type) }}

fn value(i0: u32, i1: u32, i2: u32, i3: u32) -> f32 {
    var sum = 0.0;
    for (var ky = 0u; ky < P.ky; ky++) {
        // places left of x wrap round to large numbers
        let iy = i1 * P.sy + ky * P.dy - P.py;
        if (iy >= P.ny) { continue; }
        let xs = iy * P.x_s1 + i2 * P.x_s2 + i3 * P.x_s3;
        let ws = ky * P.w_s1 + i2 * P.w_sc;
        for (var kx = 0u; kx < P.kx; kx++) {
            let ix = i0 * P.sx + kx * P.dx - P.px;
            if (ix < P.nx) { sum += x_at(xs + ix * P.x_s0) * w_at(ws + kx * P.w_s0); }
        }
    }
    return sum;
}
{{ main(dst) }}
