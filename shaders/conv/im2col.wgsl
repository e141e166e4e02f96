// dst[(kx, ky, kz, c), ox, oy, (oz, n)] = x[ox sx + kx dx - px, .., c, n], zero outside x. Images
// are volumes of one plane, signals images of one line.
//
// Bindings: x, dst (f32, or 16-bit floats in u32 words).
// Params: those of include/units.wgsl; kx, ky, kz kernel sizes, sx.. strides, px.. paddings, dx..
// dilations; nx, ny, nz sizes of x, oz planes of the result, x_s0 .. x_s2, x_sc, x_sn steps of x in
// elements. Grid: one lane per unit, flat. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ from "include/units.wgsl" import reader, main with context $}
{{ reader("x", x, x_type) }}

fn value(i0: u32, i1: u32, i2: u32, i3: u32) -> f32 {
    let line = i0 / P.kx;
    let plane = line / P.ky;
    let c = plane / P.kz;
    let n = i3 / P.oz;
    // places left of x wrap round to large numbers
    let ix = i1 * P.sx + (i0 - line * P.kx) * P.dx - P.px;
    let iy = i2 * P.sy + (line - plane * P.ky) * P.dy - P.py;
    let iz = (i3 - n * P.oz) * P.sz + (plane - c * P.kz) * P.dz - P.pz;
    if (ix >= P.nx || iy >= P.ny || iz >= P.nz) { return 0.0; }
    return x_at(ix * P.x_s0 + iy * P.x_s1 + iz * P.x_s2 + c * P.x_sc + n * P.x_sn);
}
{{ main(dst) }}
