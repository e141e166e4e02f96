// dst[j, t] = cos(src0[t] * frequency[j]) for j < half, sin(src0[t] * frequency[j - half]) for
// j < 2 half, else 0.
//
// Bindings: src0, frequency (a table), dst (f32). Params: dim (values a row), half, n_units, strides.
// Grid: one lane per value, flat. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ set vtype = "f32" $}
{$ include "include/math.wgsl" $}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let unit_id = flat_group(wg) * {{ wg }}u + lane;
    if (unit_id >= P.n_units) { return; }
    let t = unit_id / P.dim;
    let i = unit_id - t * P.dim;
    let is_sine = i >= P.half;
    let j = select(i, i - P.half, is_sine);
    var v = 0.0;
    if (j < P.half) {
        let angle = {{ src0 }}[P.off_src0 + t * P.src0_s0] * {{ frequency }}[P.off_frequency + j];
        // both are computed: they share the reduction of the angle
        v = select(cos_of(angle), sin_of(angle), is_sine);
    }
    {{ dst }}[P.off_dst + t * P.dst_s1 + i] = v;
}
