// dst[i, target, t] = x[i, t] post[target, t] + sum over sources of comb[target, source, t]
// residual[i, source, t]; without comb each stream keeps its own residual.
//
// Bindings: x, residual, post, comb if present, dst (f32). Params: those of include/units.wgsl;
// streams; x_s0, x_s1, residual_s0 .. residual_s2, post_s0, post_s1, comb_s0 .. comb_s2 in elements.
// Grid: one lane per element, flat. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ from "include/units.wgsl" import reader, main with context $}
{{ reader("x", x, x_type) }}
{{ reader("residual", residual, residual_type) }}
{{ reader("post", post, post_type) }}
$$ if mixed
{{ reader("comb", comb, comb_type) }}
$$ endif

fn value(i0: u32, i1: u32, i2: u32, i3: u32) -> f32 {
    let added = x_at(i0 * P.x_s0 + i2 * P.x_s1) * post_at(i1 * P.post_s0 + i2 * P.post_s1);
    let from_r = i0 * P.residual_s0 + i2 * P.residual_s2;
$$ if mixed
    let from_c = i1 * P.comb_s0 + i2 * P.comb_s2;
    var sum = 0.0;
    for (var h = 0u; h < P.streams; h++) {
        sum += comb_at(from_c + h * P.comb_s1) * residual_at(from_r + h * P.residual_s1);
    }
    return added + sum;
$$ else
    return added + residual_at(from_r + i1 * P.residual_s1);
$$ endif
}
{{ main(dst) }}
