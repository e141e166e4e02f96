// Mamba's selective scan. Every row (sequence, head, channel) has a state s over d_state places:
//   d = softplus(dt[head, t]);  s = s exp(d a) + (x[t] d) b[t];  y[t] = s . c[t]
// a is one number a head, or one a place of the head's state.
//
// Bindings: x, b, c as T (f32 or vec4<f32>), a (T, or f32 when one a head), state, dt (f32), ids
// (u32: the state a sequence begins with), dst (f32): y of all tokens, then the states after the
// `slots` last ones, the latest first.
// Constants: L lanes share a row, each with n values of T; TB tokens' sums are brought together at
// once; bcast (vectors.wgsl; L is 1, and a workgroup's rows lie in one sequence and group then).
// Params: heads, dim (channels a head), rows (heads * dim), n_lanes, tokens, heads_per_group,
// n_states (in state), n_seq; x_s2, x_s3, dt_s1, dt_s2 in elements; b_s1 .. c_s3 in T; states_at.
// Grid: one lane per row and part of its state, flat. Limits: ids past the end read the last state.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ import "recurrent/vectors.wgsl" as V with context $}
alias T = {{ elem }};
$$ if L > 1
var<workgroup> sums: array<f32, {{ TB * wg }}>;
$$ endif

// log(1 + exp(x)); the series where 1 + exp(x) would lose digits.
fn softplus(x: f32) -> f32 {
    if (x > 20.0) { return x; }
    let e = exp(x);
    return select(log(1.0 + e), e * (1.0 - e * (0.5 - e * 0.33333334)), e < 0.01);
}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
$$ if bcast
    @builtin(subgroup_invocation_id) sub_lane: u32,
$$ endif
) {
    let first = flat_group(wg) * {{ wg }}u;
    if (first >= P.n_lanes) { return; }
    // lanes past the end repeat the last one: barriers and broadcasts need them
    let id = min(first + lane, P.n_lanes - 1u);
    let row = id / {{ L }}u;
    let seq = row / P.rows;
    let row_in_seq = row - seq * P.rows;
    let head = row_in_seq / P.dim;
    let group = head / P.heads_per_group;
$$ if bcast
    let part = sub_lane & {{ bcast - 1 }}u;
$$ endif
    let piece = (id - row * {{ L }}u) * {{ n }}u;
{#- value e of element i -#}
{$ macro place(i, e) $}(piece + {{ i }}{{ "u" if bcast }}) * {{ vec }}u + {{ e }}u{$ endmacro $}

    let old_state = min({{ ids }}[P.off_ids + seq], P.n_states - 1u);
    let from_s = P.off_state + (old_state * P.rows + row_in_seq) * {{ d_state }}u;
{{ V.declare("s") }}
$$ if a_each
{{ V.declare("a") }}
$$ else
    let decay = {{ a }}[P.off_a + head];
$$ endif
{$ call(i) V.loop_over() $}
$$ if vec == 4
        {{ V.at("s", i) }} = T(
{$ for e in range(4) $}
            {{ state }}[from_s + {{ place(i, e) }}],
{$ endfor $}
        );
$$ else
        {{ V.at("s", i) }} = {{ state }}[from_s + {{ place(i, 0) }}];
$$ endif
$$ if a_each
        {{ V.at("a", i) }} = {{ a }}[P.off_a + head * {{ d_state // vec }}u + piece + {{ i }}{{ "u" if bcast }}];
$$ endif
{$ endcall $}

$$ if L > 1
    for (var t0 = 0u; t0 < P.tokens; t0 += {{ TB }}u) {
    let end = min(t0 + {{ TB }}u, P.tokens);
    for (var t = t0; t < end; t++) {
$$ else
    for (var t = 0u; t < P.tokens; t++) {
$$ endif
        let b = P.off_b + group * P.b_s1 + t * P.b_s2 + seq * P.b_s3 + piece;
        let c = P.off_c + group * P.c_s1 + t * P.c_s2 + seq * P.c_s3 + piece;
        let d = softplus({{ dt }}[P.off_dt + head + t * P.dt_s1 + seq * P.dt_s2]);
        let x = row_in_seq + t * P.x_s2 + seq * P.x_s3;
$$ if vec == 4
        let xd = {{ x }}[P.off_x + (x >> 2u)][x & 3u] * d;
$$ else
        let xd = {{ x }}[P.off_x + x] * d;
$$ endif
$$ if not a_each
        let kept = exp(d * decay);
$$ endif
        var y = 0.0;
{$ call(i) V.each([("b", b), ("c", c)]) $}
        let next = {{ V.at("s", i) }} * {$ if a_each $}exp(d * {{ V.at("a", i) }}){$ else $}kept{$ endif $} + b_i * xd;
        y += {{ V.dot_of("c_i", "next") }};
        {{ V.at("s", i) }} = next;
{$ endcall $}
$$ if L > 1
        sums[(t - t0) * {{ wg }}u + lane] = y;
$$ else
        if (first + lane < P.n_lanes) {
            {{ dst }}[P.off_dst + (seq * P.tokens + t) * P.rows + row_in_seq] = y;
        }
$$ endif
        let slot = P.tokens - 1u - t;
        if (slot < P.slots && first + lane < P.n_lanes) {
            let to = P.off_dst + P.states_at
                + ((slot * P.n_seq + seq) * P.rows + row_in_seq) * {{ d_state }}u;
{$ call(i) V.loop_over() $}
$$ if vec == 4
$$ for e in range(4)
            {{ dst }}[to + {{ place(i, e) }}] = {{ V.at("s", i) }}[{{ e }}];
$$ endfor
$$ else
            {{ dst }}[to + {{ place(i, 0) }}] = {{ V.at("s", i) }};
$$ endif
{$ endcall $}
        }
    }
$$ if L > 1
    workgroupBarrier();
    // every lane adds up the parts of some (token, row) pairs
    for (var o = lane; o < (end - t0) * {{ wg // L }}u; o += {{ wg }}u) {
        let t = o / {{ wg // L }}u;
        let r = o - t * {{ wg // L }}u;
        let out_row = first / {{ L }}u + r;
        if (out_row * {{ L }}u < P.n_lanes) {
            var y = 0.0;
            for (var l = 0u; l < {{ L }}u; l++) { y += sums[t * {{ wg }}u + r * {{ L }}u + l]; }
            let out_seq = out_row / P.rows;
            {{ dst }}[P.off_dst + (out_seq * P.tokens + t0 + t) * P.rows + out_row - out_seq * P.rows] = y;
        }
    }
    workgroupBarrier();
    }
$$ endif
}
