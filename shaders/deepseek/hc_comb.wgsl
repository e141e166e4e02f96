// Mixing matrices of 4 residual streams: m[source, target] = softmax over targets of
// mixes[8 + 4 source + target] scale[2] + base[8 + ..], plus eps; then `rounds` times columns are
// divided by their sums + eps, and rows before each round but the first.
//
// Bindings: mixes, scale, base, dst (f32). Params: n_tokens, rounds, eps; mixes_s0, mixes_s1,
// scale_s0, base_s0, dst_s0 .. dst_s2 in elements. Grid: one lane per token, flat. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}

fn total(v: vec4<f32>) -> f32 {
    return v.x + v.y + v.z + v.w;
}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let t = flat_group(wg) * {{ wg }}u + lane;
    if (t >= P.n_tokens) { return; }
    let scale = {{ scale }}[P.off_scale + 2u * P.scale_s0];
    var m: array<vec4<f32>, 4>;
    for (var i = 0u; i < 4u; i++) {
        var row: vec4<f32>;
        for (var j = 0u; j < 4u; j++) {
            let at = 8u + 4u * i + j;
            row[j] = {{ mixes }}[P.off_mixes + at * P.mixes_s0 + t * P.mixes_s1] * scale
                + {{ base }}[P.off_base + at * P.base_s0];
        }
        row = exp(row - max(max(row.x, row.y), max(row.z, row.w)));
        m[i] = row / total(row) + P.eps;
    }
    for (var round = 0u; round < P.rounds; round++) {
        if (round > 0u) {
            for (var i = 0u; i < 4u; i++) { m[i] /= total(m[i]) + P.eps; }
        }
        let columns = m[0] + m[1] + m[2] + m[3] + P.eps;
        for (var i = 0u; i < 4u; i++) { m[i] /= columns; }
    }
    let to = P.off_dst + t * P.dst_s2;
    for (var i = 0u; i < 4u; i++) {
        for (var j = 0u; j < 4u; j++) {
            {{ dst }}[to + j * P.dst_s0 + i * P.dst_s1] = m[i][j];
        }
    }
}
