// dst[ox, oy, c, n] = largest value of a window of x, or its sum divided by the window's area (area:
// the whole window's, or only what lies inside x). A window without values gives the lowest float.
//
// Bindings: x (f32, or 16-bit floats in u32 words), dst (f32).
// Params: those of include/units.wgsl; kx, ky, sx, sy, px, py; nx, ny sizes of x; x_s0 .. x_s3 in
// elements. Grid: one lane per element, flat. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ from "include/units.wgsl" import reader, main with context $}
{{ reader("x", x, x_type) }}

fn value(i0: u32, i1: u32, i2: u32, i3: u32) -> f32 {
$$ if kind == "max"
    var result = -3.4028234e38;
$$ else
    var result = 0.0;
    var inside = 0u;
$$ endif
    for (var ky = 0u; ky < P.ky; ky++) {
        // places left of x wrap round to large numbers
        let iy = i1 * P.sy + ky - P.py;
        if (iy >= P.ny) { continue; }
        let line = iy * P.x_s1 + i2 * P.x_s2 + i3 * P.x_s3;
        for (var kx = 0u; kx < P.kx; kx++) {
            let ix = i0 * P.sx + kx - P.px;
            if (ix >= P.nx) { continue; }
            let v = x_at(line + ix * P.x_s0);
$$ if kind == "max"
            result = max(result, v);
$$ else
            result += v;
            inside++;
$$ endif
        }
    }
$$ if kind == "max"
    return result;
$$ elif area == "inside"
    return result / f32(max(inside, 1u));
$$ else
    return result / f32(P.kx * P.ky);
$$ endif
}
{{ main(dst) }}
