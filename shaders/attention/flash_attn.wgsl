// softmax(q k^T * scale + mask) v with an online softmax: a lane a cached position.
//
// Bindings: q (f32 or vec4<f32>), k, v (f32, vec4<f32>, or f16 as u32, vec2<u32> or vec4<u32>),
// mask (f16 as u32), sinks (f32), dst (f32).
// Grid: a workgroup of W lanes for QB queries times HB heads of one K/V group, which share every
// load of K and V. Flat group index: query block, head block, K/V head, sequence.
// Lanes: a lane computes the scores of one cached position; then it owns every W-th unit of U
// output values. Queries and weights travel between lanes by subgroup broadcasts, else by repeated
// loads and workgroup memory.
// Limits: with subgroups W must be the real subgroup size (probed when the device is opened).
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "attention/common.wgsl" $}
$$ set NQ = QB * HB
$$ set DU = (D + U - 1) // U
$$ set VU = (DV + U - 1) // U
$$ set VL = (VU + W - 1) // W
$$ set QL = ((D + 3) // 4 + W - 1) // W
$$ set parts = ["a", "b"][:U // 4]
$$ set unroll = uses_subgroups and W <= 8
const W = {{ W }}u;
$$ if not uses_subgroups
var<workgroup> shared_p: array<f32, {{ W * NQ }}>;
$$ endif

@compute @workgroup_size({{ W }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let n_qb = (P.n_q + {{ QB - 1 }}u) / {{ QB }}u;
    let n_hb = P.group / {{ HB }}u;
    let flat = flat_group(wg);
    if (flat >= n_qb * n_hb * P.n_head_kv * P.n_seq) {
        return;
    }
    let first_query = (flat % n_qb) * {{ QB }}u;
    let kv_head = (flat / (n_qb * n_hb)) % P.n_head_kv;
    let first_head = kv_head * P.group + (flat / n_qb) % n_hb * {{ HB }}u;
    let seq = flat / (n_qb * n_hb * P.n_head_kv);
    let k_base = k_start(kv_head, seq);
    let v_base = v_start(kv_head, seq);

$$ for a in range(QB)
    let query{{ a }} = min(first_query + {{ a }}u, P.n_q - 1u);
$$ endfor
$$ for r in range(NQ)
    let head{{ r }} = first_head + {{ r % HB }}u;
    let q_base{{ r }} = P.off_q + query{{ r // HB }} * P.q_s1 + head{{ r }} * P.q_s2 + seq * P.q_s3;
    let slope{{ r }} = slope_of(head{{ r }});
    var m{{ r }} = MASKED;
    var l{{ r }} = 0.0;
$$ for x in range(VL)
$$ for p in parts
    var o{{ r }}_{{ x }}{{ p }} = vec4<f32>(0.0);
$$ endfor
$$ endfor
$$ if uses_subgroups
$$ for x in range(QL)
    let q{{ r }}_{{ x }} = load_q(q_base{{ r }}, {{ x }}u * W + lane);
$$ endfor
$$ endif
$$ endfor

$$ if skip_chunks
    for (var chunk = 0u; chunk < P.n_kv; chunk += 8u * W) {
    // 8 mask values a lane decide whether any of the next 8 W positions is looked at
    var seen = false;
    let words = min(chunk + 8u * lane, P.n_kv - 8u);
$$ for a in range(QB)
    seen = seen || mask_shows(query{{ a }}, seq, words);
$$ endfor
    if (!subgroupAny(seen)) {
        continue;
    }
    for (var t0 = chunk; t0 < min(chunk + 8u * W, P.n_kv); t0 += W) {
$$ else
    for (var t0 = 0u; t0 < P.n_kv; t0 += W) {
$$ endif
        let token = min(t0 + lane, P.n_kv - 1u);
        let inside = t0 + lane < P.n_kv;
$$ if mask_per_head
$$ for r in range(NQ)
        let bias{{ r }} = mask_at(query{{ r // HB }}, head{{ r }}, seq, token);
$$ endfor
$$ else
$$ for a in range(QB)
        let query_bias{{ a }} = mask_at(query{{ a }}, 0u, seq, token);
$$ endfor
$$ for r in range(NQ)
        let bias{{ r }} = query_bias{{ r // HB }};
$$ endfor
$$ endif
$$ for r in range(NQ)
        let live{{ r }} = inside && bias{{ r }} > HIDDEN;
$$ endfor
$$ if uses_subgroups
        if (!subgroupAny({$ for r in range(NQ) $}{{ " || " if r else "" }}live{{ r }}{$ endfor $})) {
            continue;
        }
$$ endif
$$ for r in range(NQ)
        var s{{ r }} = 0.0;
$$ endfor
        let k_row = k_base + token * P.k_s1;
$$ if uses_subgroups
$$ for i in range(DU)
        {
            let kk = load_k(k_row, {{ i }}u);
$$ for p in parts
$$ set i4 = i * (U // 4) + loop.index0
$$ for r in range(NQ)
            s{{ r }} += dot(subgroupBroadcast(q{{ r }}_{{ i4 // W }}, {{ i4 % W }}u), kk.{{ p }});
$$ endfor
$$ endfor
        }
$$ endfor
$$ else
        for (var i = 0u; i < {{ DU }}u; i++) {
            let kk = load_k(k_row, i);
$$ for p in parts
$$ for r in range(NQ)
            s{{ r }} += dot(load_q(q_base{{ r }}, i * {{ U // 4 }}u + {{ parts.index(p) }}u), kk.{{ p }});
$$ endfor
$$ endfor
        }
$$ endif
$$ for r in range(NQ)
        s{{ r }} = scored(s{{ r }}, slope{{ r }}, bias{{ r }}, live{{ r }});
$$ endfor
$$ if uses_subgroups
$$ for r in range(NQ)
        let top{{ r }} = max(m{{ r }}, subgroupMax(s{{ r }}));
        let p{{ r }} = select(0.0, exp(s{{ r }} - top{{ r }}), live{{ r }});
        let c{{ r }} = exp(m{{ r }} - top{{ r }});
        l{{ r }} = l{{ r }} * c{{ r }} + subgroupAdd(p{{ r }});
$$ endfor
$$ else
$$ for r in range(NQ)
        shared_p[{{ r }}u * W + lane] = s{{ r }};
$$ endfor
        workgroupBarrier();
$$ for r in range(NQ)
        var top{{ r }} = m{{ r }};
        for (var j = 0u; j < W; j++) {
            top{{ r }} = max(top{{ r }}, shared_p[{{ r }}u * W + j]);
        }
        let c{{ r }} = exp(m{{ r }} - top{{ r }});
$$ endfor
        workgroupBarrier();
$$ for r in range(NQ)
        shared_p[{{ r }}u * W + lane] = select(0.0, exp(s{{ r }} - top{{ r }}), live{{ r }});
$$ endfor
        workgroupBarrier();
$$ for r in range(NQ)
        var sum{{ r }} = 0.0;
        for (var j = 0u; j < W; j++) {
            sum{{ r }} += shared_p[{{ r }}u * W + j];
        }
        l{{ r }} = l{{ r }} * c{{ r }} + sum{{ r }};
$$ endfor
$$ endif
$$ for r in range(NQ)
        m{{ r }} = top{{ r }};
$$ for x in range(VL)
$$ for p in parts
        o{{ r }}_{{ x }}{{ p }} *= c{{ r }};
$$ endfor
$$ endfor
$$ endfor

$$ macro add_values(j, weight)
        {
            let v_row = v_base + min(t0 + {{ j }}, P.n_kv - 1u) * P.v_s1;
$$ for r in range(NQ)
            let w{{ r }} = {{ weight }}{{ r }}{{ caller(r) }};
$$ endfor
$$ for x in range(VL)
            {
                let vv = load_v(v_row, min(lane + {{ x }}u * W, {{ VU - 1 }}u));
$$ for r in range(NQ)
$$ for p in parts
                o{{ r }}_{{ x }}{{ p }} += w{{ r }} * vv.{{ p }};
$$ endfor
$$ endfor
            }
$$ endfor
        }
$$ endmacro
$$ if unroll
$$ for j in range(W)
{$ call(r) add_values(j ~ "u", "subgroupBroadcast(p") $}, {{ j }}u){$ endcall $}
$$ endfor
$$ elif uses_subgroups
        for (var j = 0u; j < W; j++) {
{$ call(r) add_values("j", "subgroupShuffle(p") $}, j){$ endcall $}
        }
$$ else
        for (var j = 0u; j < W; j++) {
{$ call(r) add_values("j", "shared_p[W * ") $}u + j]{$ endcall $}
        }
        workgroupBarrier();
$$ endif
    }
$$ if skip_chunks
    }
$$ endif

$$ for r in range(NQ)
    if (first_query + {{ r // HB }}u < P.n_q) {
        let f = final_factor(m{{ r }}, l{{ r }}, head{{ r }});
        let out = P.off_dst + ((seq * P.n_q + query{{ r // HB }}) * P.n_head + head{{ r }}) * {{ DV }}u;
$$ for x in range(VL)
$$ for p in parts
        for (var j = 0u; j < 4u; j++) {
            let d = (lane + {{ x }}u * W) * {{ U }}u + {{ 4 * parts.index(p) }}u + j;
            if (d < {{ DV }}u) {
                {{ dst }}[out + d] = o{{ r }}_{{ x }}{{ p }}[j] * f;
            }
        }
$$ endfor
$$ endfor
    }
$$ endfor
}
