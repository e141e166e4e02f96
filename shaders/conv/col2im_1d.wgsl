// dst[i, channel] = sum over t of x[(k, channel), t] where t stride + k = i + crop.
//
// Bindings: x, dst (f32, or 16-bit floats in u32 words).
// Params: those of include/units.wgsl; k, stride, crop, n_t (columns of x), x_s0, x_s1 in elements.
// Grid: one lane per unit, flat. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ from "include/units.wgsl" import reader, main with context $}
{{ reader("x", x, x_type) }}

fn value(i0: u32, i1: u32, i2: u32, i3: u32) -> f32 {
    let at = i0 + P.crop;
    let last = min(at / P.stride, P.n_t - 1u);
    // the first column whose window reaches this far
    let first = select(0u, (at - P.k) / P.stride + 1u, at >= P.k);
    var sum = 0.0;
    for (var t = first; t <= last; t++) {
        sum += x_at((i1 * P.k + at - t * P.stride) * P.x_s0 + t * P.x_s1);
    }
    return sum;
}
{{ main(dst) }}
