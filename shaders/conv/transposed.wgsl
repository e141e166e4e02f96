// dst[i, j, o, n] = sum over c and all places (l, m) of x whose window covers (i, j) of
// x[l, m, c, n] w[i - l stride, j - m stride, o, c]. Signals are images of one line.
//
// Bindings: x, w (f32, or 16-bit floats in u32 words), dst (f32).
// Params: those of include/units.wgsl; kx, ky kernel sizes, stride, stride_y; nx, ny, channels of x;
// x_s0, x_s1, x_sc, x_sn, w_s0, w_s1, w_so, w_sc steps in elements.
// Grid: one lane per element, flat. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ from "include/units.wgsl" import reader, main with context $}
{{ reader("x", x, x_type) }}
{{ reader("w", w, w_type) }}

// The first place whose window of k reaches place i of the result.
fn first_of(i: u32, k: u32, stride: u32) -> u32 {
    return select(0u, (i - k) / stride + 1u, i >= k);
}

fn value(i0: u32, i1: u32, i2: u32, i3: u32) -> f32 {
    let l0 = first_of(i0, P.kx, P.stride);
    let l1 = min(i0 / P.stride + 1u, P.nx);
    let m0 = first_of(i1, P.ky, P.stride_y);
    let m1 = min(i1 / P.stride_y + 1u, P.ny);
    var sum = 0.0;
    for (var m = m0; m < m1; m++) {
        for (var l = l0; l < l1; l++) {
            let xs = l * P.x_s0 + m * P.x_s1 + i3 * P.x_sn;
            let ws = (i0 - l * P.stride) * P.w_s0 + (i1 - m * P.stride_y) * P.w_s1 + i2 * P.w_so;
            for (var c = 0u; c < P.channels; c++) {
                sum += x_at(xs + c * P.x_sc) * w_at(ws + c * P.w_sc);
            }
        }
    }
    return sum;
}
{{ main(dst) }}
