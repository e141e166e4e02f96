{#- Matrix times few columns for GPUs: the {{ WG }} lanes of a workgroup share {{ R }} rows and {{ C }} columns, each
    taking every WG-th chunk of the rows, and add up at the end.

    Bindings: weights (weights.wgsl), x (x.wgsl), y array<f32>, with by_id also ids array<u32>.
    Constants: R rows, C columns, WG lanes, use_subgroups: add up with subgroupAdd first, and the
    subgroups' sums in workgroup memory; without it all in workgroup memory. Right for any subgroup
    size. Grid: groups of R rows, groups of C columns, matrices; see place.wgsl.
    Workgroup memory: 4 * R * C bytes a subgroup (at most WG of them), or a lane. -#}
{$ import "mul_mat/weights.wgsl" as W with context $}
{$ import "mul_mat/x.wgsl" as X with context $}
{$ import "mul_mat/place.wgsl" as G with context $}
{$ include "include/grid.wgsl" $}
{{ decls }}
{{ W.functions() }}
{{ X.functions() }}
var<workgroup> part: array<f32, {{ WG * R * C }}>;

@compute @workgroup_size({{ WG }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
$$ if use_subgroups
    @builtin(subgroup_invocation_id) sub_lane: u32,
    @builtin(subgroup_id) sub_id: u32,
    @builtin(num_subgroups) n_subs: u32,
$$ endif
) {
{{ G.place() }}
    let row0 = row_group * {{ R }}u;
    let col0 = col_group * {{ C }}u;
$$ for r in range(R)
    let wrow{{ r }} = w_base + min(row0 + {{ r }}u, P.m - 1u) * P.w_s1;
$$ endfor
$$ for c in range(C)
    let xcol{{ c }} = x_base + min(col0 + {{ c }}u, P.n - 1u) * P.x_s1;
$$ for r in range(R)
    var acc{{ r }}_{{ c }} = 0.0;
$$ endfor
$$ endfor
$$ if W.plain
    for (var i = lane; i < P.quads; i += {{ WG }}u) {
$$ for c in range(C)
        let v{{ c }} = {{ G.masked(X.vec("xcol" ~ c, "i"), "i") }};
$$ endfor
$$ for r in range(R)
        let w{{ r }} = {{ G.masked(W.tail("wrow" ~ r, "i"), "i") }};
$$ for c in range(C)
        acc{{ r }}_{{ c }} += dot(w{{ r }}, v{{ c }});
$$ endfor
$$ endfor
    }
$$ else
    for (var chunk = lane; chunk < P.blocks * {{ W.super }}u; chunk += {{ WG }}u) {
        let b = chunk / {{ W.super }}u;
        let s = chunk % {{ W.super }}u;
$$ for r in range(R)
        let n{{ r }} = wrow{{ r }} + b;
        {{ W.block(r, "n" ~ r) }}
        {{ W.chunk(r, "n" ~ r, "s") }}
$$ endfor
$$ for j in range(8)
        {
$$ for c in range(C)
            let v{{ c }} = {{ X.vec("xcol" ~ c, "chunk * 8u + " ~ j ~ "u") }};
$$ endfor
$$ for r in range(R)
            let w{{ r }} = {{ W.vec(r, j) }};
$$ for c in range(C)
            acc{{ r }}_{{ c }} += dot(w{{ r }}, v{{ c }});
$$ endfor
$$ endfor
        }
$$ endfor
    }
$$ endif
$$ for r in range(R)
$$ for c in range(C)
$$ if use_subgroups
    let sum{{ r }}_{{ c }} = subgroupAdd(acc{{ r }}_{{ c }});
    if (sub_lane == 0u) { part[sub_id * {{ R * C }}u + {{ c * R + r }}u] = sum{{ r }}_{{ c }}; }
$$ else
    part[lane * {{ R * C }}u + {{ c * R + r }}u] = acc{{ r }}_{{ c }};
$$ endif
$$ endfor
$$ endfor
    workgroupBarrier();
$$ if not use_subgroups
    for (var half = {{ WG // 2 }}u; half > 0u; half >>= 1u) {
        if (lane < half) {
            for (var i = 0u; i < {{ R * C }}u; i++) {
                part[lane * {{ R * C }}u + i] += part[(lane + half) * {{ R * C }}u + i];
            }
        }
        workgroupBarrier();
    }
$$ endif
    let r = lane % {{ R }}u;
    let c = lane / {{ R }}u;
    if (lane < {{ R * C }}u && row0 + r < P.m && col0 + c < P.n) {
        var sum = part[lane];
$$ if use_subgroups
        for (var i = 1u; i < n_subs; i++) { sum += part[i * {{ R * C }}u + lane]; }
$$ endif
        {{ y }}[y_base + (col0 + c) * P.y_s1 + row0 + r] = sum;
    }
}
