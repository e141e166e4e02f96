// dst[i, t, s] = sum over k of x[t + k, i, s] w[k, i]: each channel with its own taps.
//
// Bindings: x, w, dst (f32). Params: those of include/units.wgsl; taps; x_s0, x_s1, x_s2, w_s0, w_s1
// in elements. Grid: one lane per element, flat. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ from "include/units.wgsl" import reader, main with context $}
{{ reader("x", x, x_type) }}
{{ reader("w", w, w_type) }}

fn value(i0: u32, i1: u32, i2: u32, i3: u32) -> f32 {
    let from_x = i1 * P.x_s0 + i0 * P.x_s1 + i2 * P.x_s2;
    var sum = 0.0;
    for (var k = 0u; k < P.taps; k++) {
        sum += x_at(from_x + k * P.x_s0) * w_at(k * P.w_s0 + i0 * P.w_s1);
    }
    return sum;
}
{{ main(dst) }}
