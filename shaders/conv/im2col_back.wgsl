// Gradient of im2col's image: dst[x, y, c, n] = sum of grad[(kx, ky, c), ox, oy, n] over all windows
// that cover the place, x = ox sx + kx dx - px and y alike.
//
// Bindings: grad (f32, or 16-bit floats in u32 words), dst (f32).
// Params: those of include/units.wgsl; kx, ky, sx, sy, px, py, dx, dy; ox, oy windows, grad_s1 ..
// grad_s3 steps of grad along ox, oy, n in elements. Grid: one lane per element, flat. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ from "include/units.wgsl" import reader, main with context $}
{{ reader("grad", grad, grad_type) }}

fn value(i0: u32, i1: u32, i2: u32, i3: u32) -> f32 {
    var sum = 0.0;
    let from_n = i3 * P.grad_s3 + i2 * P.kx * P.ky;
    for (var ky = 0u; ky < P.ky; ky++) {
        // windows that begin past the place wrap round to large numbers
        let y = i1 + P.py - ky * P.dy;
        let oy = y / P.sy;
        if (oy >= P.oy || oy * P.sy != y) { continue; }
        for (var kx = 0u; kx < P.kx; kx++) {
            let x = i0 + P.px - kx * P.dx;
            let ox = x / P.sx;
            if (ox >= P.ox || ox * P.sx != x) { continue; }
            sum += grad_at(from_n + ky * P.kx + kx + ox * P.grad_s1 + oy * P.grad_s2);
        }
    }
    return sum;
}
{{ main(dst) }}
