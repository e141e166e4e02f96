// Layers whose state is a matrix S a head, updated token by token. A lane owns the part of S that one
// value channel j needs, a vector s over key channels, and writes y[j]; the vectors of a token are
// shared by the lanes of its head.
//   gla:    s = g s + k v[j];                          y[j] = scale q . s
//   wkv6:   y[j] = r . (s + bonus k v[j]);             s = decay s + k v[j]
//   wkv7:   s = decay s + k v[j] + b (a . s);          y[j] = r . s
//   delta:  s = exp(g) s; s += k beta (v[j] - k . s);  y[j] = scale q . s     (g: per key or head)
//
// Bindings: the op's vectors as T (f32 or vec4<f32>), state, dst (f32). dst holds the outputs of all
// tokens, then the states after the last one; delta may keep those of the `slots` last tokens.
// Constants: size of a head, n = size / vec, wg, bcast (vectors.wgsl; wg divides size then).
// Params: heads, tokens (per sequence), n_lanes, per vector steps in T from head to head, token to
// token, sequence to sequence; states_at (elements of dst before the states), slot_size, scale.
// Grid: one lane per sequence, head and value channel, flat. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ import "recurrent/vectors.wgsl" as V with context $}
alias T = {{ elem }};
{#- where element e of the lane's vector lies: in a column of the state, or in a row of it -#}
{$ macro place(i, e) $}
{$ set at = i if vec == 1 else "u * 4u + ".join([i ~ "", e ~ "u"]) if bcast else i ~ " * 4u + " ~ e ~ "u" $}
{$ if kind in ("gla", "wkv6") $}({{ at }}) * {{ size }}u + j{$ else $}j * {{ size }}u + {{ at }}{$ endif $}
{$ endmacro $}
{$ macro keep(slot) $}
    let to = P.off_dst + P.states_at + {{ slot }} + matrix * {{ size * size }}u;
{$ call(i) V.loop_over() $}
$$ if vec == 4
$$ for e in range(4)
        {{ dst }}[to + {{ place(i, e) }}] = {{ V.at("s", i) }}[{{ e }}];
$$ endfor
$$ else
        {{ dst }}[to + {{ place(i, 0) }}] = {{ V.at("s", i) }};
$$ endif
{$ endcall $}
{$ endmacro $}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
$$ if bcast
    @builtin(subgroup_invocation_id) sub_lane: u32,
$$ endif
) {
    let id = flat_group(wg) * {{ wg }}u + lane;
    if (id >= P.n_lanes) { return; }
    let matrix = id / {{ size }}u;
    let j = id - matrix * {{ size }}u;
    let seq = matrix / P.heads;
    let head = matrix - seq * P.heads;
$$ if bcast
    let part = sub_lane & {{ bcast - 1 }}u;
$$ endif

    let from_s = P.off_state + matrix * {{ size * size }}u;
{{ V.declare("s") }}
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
{$ endcall $}
$$ if kind == "wkv6"
    let bonus = P.off_bonus + head * {{ n }}u;
$$ endif
    for (var t = 0u; t < P.tokens; t++) {
$$ for name, repeats in vectors
        let {{ name }} = P.off_{{ name }} + t * P.{{ name }}_s2
            + {{ "head % P." ~ name ~ "_heads" if repeats else "head" }} * P.{{ name }}_s1
            + {{ "seq / P." ~ name ~ "_each" if repeats else "seq" }} * P.{{ name }}_s3;
$$ endfor
$$ if vec == 4
        let vj = {{ v }}[v + (j >> 2u)][j & 3u];
$$ else
        let vj = {{ v }}[v + j];
$$ endif
        var y = 0.0;
$$ if kind == "gla"
{$ call(i) V.each([("k", k), ("g", g), ("q", q)]) $}
        let next = {{ V.at("s", i) }} * g_i + k_i * vj;
        y += {{ V.dot_of("q_i", "next") }};
        {{ V.at("s", i) }} = next;
{$ endcall $}
$$ elif kind == "wkv6"
{$ call(i) V.each([("k", k), ("decay", decay), ("r", r), ("bonus", bonus)]) $}
        let kv = k_i * vj;
        let old = {{ V.at("s", i) }};
        y += {{ V.dot_of("r_i", "(old + bonus_i * kv)") }};
        {{ V.at("s", i) }} = old * decay_i + kv;
{$ endcall $}
$$ elif kind == "wkv7"
        var along = 0.0;
{$ call(i) V.each([("a", a)]) $}
        along += {{ V.dot_of(V.at("s", i), "a_i") }};
{$ endcall $}
{$ call(i) V.each([("decay", decay), ("k", k), ("b", b), ("r", r)]) $}
        let next = {{ V.at("s", i) }} * decay_i + k_i * vj + b_i * along;
        y += {{ V.dot_of("r_i", "next") }};
        {{ V.at("s", i) }} = next;
{$ endcall $}
$$ else
        var known = 0.0;
$$ if by_key
{$ call(i) V.each([("g", g), ("k", k)]) $}
        let decayed = {{ V.at("s", i) }} * exp(g_i);
        known += {{ V.dot_of("decayed", "k_i") }};
        {{ V.at("s", i) }} = decayed;
{$ endcall $}
        let change = {{ beta }}[beta] * (vj - known);
$$ else
        let kept = exp({{ g }}[g]);
{$ call(i) V.each([("k", k)]) $}
        known += {{ V.dot_of(V.at("s", i), "k_i") }};
{$ endcall $}
        let change = {{ beta }}[beta] * (vj - kept * known);
$$ endif
{$ call(i) V.each([("k", k), ("q", q)]) $}
        let next = {{ V.at("s", i) }}{{ "" if by_key else " * kept" }} + k_i * change;
        y += {{ V.dot_of("q_i", "next") }};
        {{ V.at("s", i) }} = next;
{$ endcall $}
$$ endif
        let at = (seq * P.tokens + t) * P.heads + head;
        {{ dst }}[P.off_dst + at * {{ size }}u + j] = y * P.scale;
$$ if kind == "delta"
        let slot = P.tokens - 1u - t;
        if (slot < P.slots) {
{{ keep("slot * P.slot_size") }}
        }
$$ endif
    }
$$ if kind != "delta"
{{ keep("0u") }}
$$ endif
}
