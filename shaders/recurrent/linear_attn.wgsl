// Layers whose state is a matrix S a head, updated token by token. A lane owns the part of S that one
// value channel j needs, a vector s over key channels, and writes y[j]; the vectors of a token are
// shared by the lanes of its head.
//   gla:    s = g s + k v[j];                     y[j] = scale q . s
//   wkv6:   y[j] = r . (s + u k v[j]);            s = decay s + k v[j]
//   wkv7:   s = decay s + k v[j] + b (a . s);     y[j] = r . s
//   delta:  s = exp(g) s; s += k beta (v[j] - k . s);  y[j] = scale q . s   (g: per key or per head)
//
// Bindings: the op's vectors as T (f32 or vec4<f32>), state, dst (f32). dst holds the outputs of all
// tokens, then the states after the last one; delta may keep those of the `slots` last tokens.
// Params: heads, tokens (per sequence), n_lanes, per vector steps in T from head to head, token to
// token, sequence to sequence; states_at (elements of dst before the states), scale.
// Grid: one lane per sequence, head and value channel, flat. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
alias T = {{ elem }};
{$ macro dot_of(a, b) $}{$ if vec == 4 $}dot({{ a }}, {{ b }}){$ else $}{{ a }} * {{ b }}{$ endif $}{$ endmacro $}
{$ macro each() $}for (var i = 0u; i < {{ n }}u; i++){$ endmacro $}
{#- where element e of the lane's vector lies: in a column of the state, or in a row of it -#}
{$ macro place(e) $}{$ if kind in ("gla", "wkv6") $}({{ e }}) * {{ size }}u + j{$ else $}j * {{ size }}u + {{ e }}{$ endif $}{$ endmacro $}
{$ macro keep(slot) $}
let to = P.off_dst + P.states_at + {{ slot }} + matrix * {{ size * size }}u;
{{ each() }} {
    let part = s[i];
$$ if vec == 4
    let e = 4u * i;
    {{ dst }}[to + {{ place("e") }}] = part.x;
    {{ dst }}[to + {{ place("e + 1u") }}] = part.y;
    {{ dst }}[to + {{ place("e + 2u") }}] = part.z;
    {{ dst }}[to + {{ place("e + 3u") }}] = part.w;
$$ else
    {{ dst }}[to + {{ place("i") }}] = part;
$$ endif
}
{$ endmacro $}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let id = flat_group(wg) * {{ wg }}u + lane;
    if (id >= P.n_lanes) { return; }
    let matrix = id / {{ size }}u;
    let j = id - matrix * {{ size }}u;
    let seq = matrix / P.heads;
    let head = matrix - seq * P.heads;

    var s: array<T, {{ n }}>;
    let from_s = P.off_state + matrix * {{ size * size }}u;
    {{ each() }} {
$$ if vec == 4
        let e = 4u * i;
        s[i] = T({{ state }}[from_s + {{ place("e") }}], {{ state }}[from_s + {{ place("e + 1u") }}],
            {{ state }}[from_s + {{ place("e + 2u") }}], {{ state }}[from_s + {{ place("e + 3u") }}]);
$$ else
        s[i] = {{ state }}[from_s + {{ place("i") }}];
$$ endif
    }
$$ if kind == "wkv6"
    let u = P.off_bonus + head * {{ n }}u;
$$ endif
    for (var t = 0u; t < P.tokens; t++) {
$$ for name, repeats in vectors
        let {{ name }} = P.off_{{ name }} + {{ "(head % P." ~ name ~ "_heads)" if repeats else "head" }} * P.{{ name }}_s1 + t * P.{{ name }}_s2 + {{ "(seq / P." ~ name ~ "_each)" if repeats else "seq" }} * P.{{ name }}_s3;
$$ endfor
$$ if vec == 4
        let vj = {{ v }}[v + (j >> 2u)][j & 3u];
$$ else
        let vj = {{ v }}[v + j];
$$ endif
        var y = 0.0;
$$ if kind == "gla"
        {{ each() }} {
            let next = s[i] * {{ g }}[g + i] + {{ k }}[k + i] * vj;
            y += {{ dot_of(q ~ "[q + i]", "next") }};
            s[i] = next;
        }
$$ elif kind == "wkv6"
        {{ each() }} {
            let kv = {{ k }}[k + i] * vj;
            let old = s[i];
            y += {{ dot_of(r ~ "[r + i]", "(old + " ~ bonus ~ "[u + i] * kv)") }};
            s[i] = old * {{ decay }}[decay + i] + kv;
        }
$$ elif kind == "wkv7"
        var along = 0.0;
        {{ each() }} { along += {{ dot_of("s[i]", a ~ "[a + i]") }}; }
        {{ each() }} {
            let next = s[i] * {{ decay }}[decay + i] + {{ k }}[k + i] * vj + {{ b }}[b + i] * along;
            y += {{ dot_of(r ~ "[r + i]", "next") }};
            s[i] = next;
        }
$$ else
        var known = 0.0;
$$ if not by_key
        let kept = exp({{ g }}[g]);
$$ endif
        {{ each() }} {
            let decayed = s[i] * {$ if by_key $}exp({{ g }}[g + i]){$ else $}kept{$ endif $};
            known += {{ dot_of("decayed", k ~ "[k + i]") }};
            s[i] = decayed;
        }
        let change = {{ beta }}[beta] * (vj - known);
        {{ each() }} {
            let next = s[i] + {{ k }}[k + i] * change;
            y += {{ dot_of(q ~ "[q + i]", "next") }};
            s[i] = next;
        }
$$ endif
        let at = (seq * P.tokens + t) * P.heads + head;
        {{ dst }}[P.off_dst + at * {{ size }}u + j] = y * P.scale;
$$ if kind == "delta"
        let slot = P.tokens - 1u - t;
        if (slot < P.slots) { {{ keep("slot * P.slot_size") }} }
$$ endif
    }
$$ if kind != "delta"
    {{ keep("0u") }}
$$ endif
}
