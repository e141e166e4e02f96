// Gradient of pool_2d: dst[x, y, c, n] = sum over the windows that cover the place of their gradient
// divided by the window's area, or of the whole gradient where the place holds the first of the
// window's largest values.
//
// Bindings: grad, x (f32, or 16-bit floats in u32 words), dst (f32).
// Params: those of include/units.wgsl; kx, ky, sx, sy, px, py; nx, ny sizes of x, ox, oy windows;
// grad_s0 .. grad_s3, x_s0 .. x_s3 in elements. Grid: one lane per element, flat. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ from "include/units.wgsl" import reader, main with context $}
{{ reader("grad", grad, grad_type) }}
$$ if kind == "max"
{{ reader("x", x, x_type) }}

// True when (i0, i1) holds the first of the largest values in window (ox, oy).
fn is_chosen(i0: u32, i1: u32, ox: u32, oy: u32, image: u32) -> bool {
    var largest = -3.4028234e38;
    var found = false;
    for (var ky = 0u; ky < P.ky; ky++) {
        let iy = oy * P.sy + ky - P.py;
        if (iy >= P.ny) { continue; }
        for (var kx = 0u; kx < P.kx; kx++) {
            let ix = ox * P.sx + kx - P.px;
            if (ix >= P.nx) { continue; }
            let v = x_at(image + ix * P.x_s0 + iy * P.x_s1);
            if (v > largest) {
                largest = v;
                found = ix == i0 && iy == i1;
            }
        }
    }
    return found;
}
$$ endif

// The first window of k values that reaches place i (padding included).
fn first_of(i: u32, k: u32, step: u32) -> u32 {
    return select(0u, (i - k) / step + 1u, i >= k);
}

fn value(i0: u32, i1: u32, i2: u32, i3: u32) -> f32 {
    let x = i0 + P.px;
    let y = i1 + P.py;
    let end_x = min(x / P.sx + 1u, P.ox);
    let end_y = min(y / P.sy + 1u, P.oy);
    let plane = i2 * P.grad_s2 + i3 * P.grad_s3;
    var sum = 0.0;
    for (var oy = first_of(y, P.ky, P.sy); oy < end_y; oy++) {
        for (var ox = first_of(x, P.kx, P.sx); ox < end_x; ox++) {
            let g = grad_at(plane + ox * P.grad_s0 + oy * P.grad_s1);
$$ if kind == "max"
            if (is_chosen(i0, i1, ox, oy, i2 * P.x_s2 + i3 * P.x_s3)) { sum += g; }
$$ else
            sum += g / f32(P.kx * P.ky);
$$ endif
        }
    }
    return sum;
}
{{ main(dst) }}
