// dst[i, t] = scale * sum over streams h of x[i, h, t] weight, where weight is w[h, t], or, gated,
// sigmoid(w[i, h, t]).
//
// Bindings: x, w, dst (f32). Params: those of include/units.wgsl; streams, scale; x_s0 .. x_s2 and
// w_s0 .. w_s2 (steps along i, h, t) in elements. Grid: one lane per element, flat. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ from "include/units.wgsl" import reader, main with context $}
{{ reader("x", x, x_type) }}
{{ reader("w", w, w_type) }}

fn value(i0: u32, i1: u32, i2: u32, i3: u32) -> f32 {
    var sum = 0.0;
    for (var h = 0u; h < P.streams; h++) {
        let weight = w_at(i0 * P.w_s0 + h * P.w_s1 + i1 * P.w_s2);
        sum += x_at(i0 * P.x_s0 + h * P.x_s1 + i1 * P.x_s2)
            {$ if gated $}/ (1.0 + exp(-weight)){$ else $}* weight{$ endif $};
    }
    return sum * P.scale;
}
{{ main(dst) }}
