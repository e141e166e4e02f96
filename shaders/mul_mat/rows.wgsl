{#- Matrix product for adapters that compute on the host's cores: a lane makes {{ R }} rows by {{ C }}
    columns on its own, without barriers.

    Bindings: weights (weights.wgsl), x (x.wgsl), y array<f32>, with by_id also ids array<u32>.
    Constants: R rows a lane, C columns, WG lanes a workgroup, bcast lanes that load a chunk of x
    together and hand it round with subgroupBroadcast (8 or 4), or 0: each lane loads it by itself;
    factored: block formats only: sums of codes times x are scaled once a chunk, instead of each
    weight; worth it for few columns, that is, sums;
    chunked: whole chunks are unrolled (else the loop over four values at a time takes all of a row).
    Grid: groups of WG * R rows, groups of C columns, matrices; see place.wgsl.
    Rows and columns past the end are computed again from the last one and not stored: no lane leaves
    early, since subgroupBroadcast needs them all. Subgroups must have at least `bcast` lanes.
    What else happens to the sums of a single column: epilogue.wgsl. -#}
{$ import "mul_mat/weights.wgsl" as W with context $}
{$ import "mul_mat/epilogue.wgsl" as E with context $}
{$ import "mul_mat/x.wgsl" as X with context $}
{$ import "mul_mat/place.wgsl" as G with context $}
{$ set loads = 8 // bcast if bcast else 0 $}
{$ set factored = factored and not W.plain $}
{$ macro weighed(v) $}
{{ v }}{$ if factored and W.has_codes $} * vec4<f32>(1.0, 0.00390625, 0.0000152587890625, 1.0){$ endif $}
{$ endmacro $}
{#- The sums of a lane over its R rows of the weights W, which start at `base`, into `acc`<row>_<column>. -#}
{$ macro sums(W, base, acc) $}
$$ for r in range(R)
$$ for c in range(C)
    var {{ acc }}{{ r }}_{{ c }} = 0.0;
$$ endfor
$$ endfor
    {
$$ for r in range(R)
    let wrow{{ r }} = {{ base }} + min(row0 + {{ r }}u, P.m - 1u) * P.w_s1;
$$ endfor
$$ if chunked
    for (var b = 0u; b < P.blocks; b++) {
$$ for r in range(R)
        let n{{ r }} = wrow{{ r }} + b * {{ W.step }}u;
        {{ W.block(r, "n" ~ r) }}
$$ endfor
$$ if W.super > 1
    for (var g = 0u; g < {{ W.super // W.inner }}u; g++) {
$$ for r in range(R)
        {{ W.load(r, "n" ~ r, "g") }}
$$ endfor
{#- unrolled groups: their shifts become constants -#}
$$ if not W.unroll
    for (var turn = 0u; turn < {{ W.inner }}u; turn++) {
$$ endif
$$ endif
$$ for turn in (range(W.inner) if W.unroll else [0])
{$ set v = turn ~ "u" if W.unroll else "turn" $}
        {
$$ if W.super > 1
        let chunk = b * {{ W.super }}u + {{ W.chunk_of("g", v) }};
$$ else
        let chunk = b;
$$ endif
$$ for c in range(C)
$$ for h in range(loads)
        let part{{ c }}_{{ h }} = {{ weighed(X.vec("xcol" ~ c, "chunk * 8u + " ~ h * bcast ~ "u + (sub_lane & " ~ (bcast - 1) ~ "u)")) }};
$$ endfor
$$ endfor
$$ for r in range(R)
$$ if W.super > 1
        {{ W.turn(r, "n" ~ r, "g", v) }}
$$ else
        {{ W.chunk(r, "n" ~ r, "0u") }}
$$ endif
$$ endfor
$$ if factored
$$ for c in range(C)
$$ if W.has_codes
        var sum{{ c }} = vec2<f32>(0.0);
$$ endif
$$ for r in range(R)
        var dot{{ r }}_{{ c }} = vec2<f32>(0.0);
$$ endfor
$$ endfor
$$ endif
$$ for j in range(8)
        {
$$ for c in range(C)
$$ if bcast
            let v{{ c }} = subgroupBroadcast(part{{ c }}_{{ j // bcast }}, {{ j % bcast }}u);
$$ else
            let v{{ c }} = {{ weighed(X.vec("xcol" ~ c, "chunk * 8u + " ~ j ~ "u")) }};
$$ endif
$$ if factored and W.has_codes
            sum{{ c }}.{{ "xy"[j // 4] }} += dot(v{{ c }}, vec4<f32>(1.0, 256.0, 65536.0, 1.0));
$$ endif
$$ endfor
$$ for r in range(R)
$$ if factored
            let w{{ r }} = {{ W.codes(r, j) }};
$$ for c in range(C)
            dot{{ r }}_{{ c }}.{{ "xy"[j // 4] }} += dot(w{{ r }}, v{{ c }});
$$ endfor
$$ else
            let w{{ r }} = {{ W.vec(r, j) }};
$$ for c in range(C)
            {{ acc }}{{ r }}_{{ c }} += dot(w{{ r }}, v{{ c }});
$$ endfor
$$ endif
$$ endfor
        }
$$ endfor
$$ if factored
$$ for r in range(R)
$$ for c in range(C)
        {{ acc }}{{ r }}_{{ c }} += dot(sc{{ r }}, dot{{ r }}_{{ c }}){{ " + dot(mn%s, sum%s)" % (r, c) if W.has_codes else "" }};
$$ endfor
$$ endfor
$$ endif
        }
$$ endfor
$$ if W.super > 1
$$ if not W.unroll
    }
$$ endif
    }
$$ endif
    }
$$ endif
$$ if tail
    for (var i = P.blocks * 8u; i < P.quads; i++) {
$$ for c in range(C)
        let v{{ c }} = {{ G.masked(X.vec("xcol" ~ c, "i"), "i") }};
$$ endfor
$$ for r in range(R)
        let w{{ r }} = {{ G.masked(W.tail("wrow" ~ r, "i"), "i") }};
$$ for c in range(C)
        {{ acc }}{{ r }}_{{ c }} += dot(w{{ r }}, v{{ c }});
$$ endfor
$$ endfor
    }
$$ endif
    }
{$ endmacro $}
{$ include "include/grid.wgsl" $}
{{ decls }}
{{ W.functions() }}
{{ X.functions() }}
{{ E.functions() }}

@compute @workgroup_size({{ WG }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
$$ if bcast
    @builtin(subgroup_invocation_id) sub_lane: u32,
$$ endif
) {
{{ G.place() }}
    let row0 = (row_group * {{ WG }}u + lane) * {{ R }}u;
    let col0 = col_group * {{ C }}u;
$$ for c in range(C)
    let xcol{{ c }} = x_base + min(col0 + {{ c }}u, P.n - 1u) * P.x_s1;
$$ endfor
{{ sums(W, "w_base", "acc") }}
$$ if glu
{$ with w_prefix = "w2", w_q = w2_q, w_d = w2_d, w_h = w2_h $}
{$ import "mul_mat/weights.wgsl" as W2 with context $}
{{ sums(W2, "(w_base - P.w_off + P.w2_off)", "up") }}
{$ endwith $}
$$ endif
$$ if fused
{{ E.finish() }}
$$ else
$$ for c in range(C)
    if (col0 + {{ c }}u < P.n) {
        let out{{ c }} = y_base + (col0 + {{ c }}u) * P.y_s1 + row0;
$$ for r in range(R)
        if (row0 + {{ r }}u < P.m) { {{ y }}[out{{ c }} + {{ r }}u] = acc{{ r }}_{{ c }}; }
$$ endfor
    }
$$ endfor
$$ endif
}
