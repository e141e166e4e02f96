// softmax(q k^T * scale + mask) v with an online softmax.
//
// Bindings: q (f32 or vec4<f32>), k, v (f32, vec4<f32>, or f16 as u32 / vec2<u32>), mask (f16 as
// u32), sinks (f32), dst (f32).
// Grid: one workgroup of W lanes per NQ rows; a row is (query, head of one K/V group), so that rows
// of a workgroup read the same K and V. Flat group index: row block, then K/V head, then sequence.
// Lanes: a lane computes the scores of one cached position; then it owns every W-th vec4 of the
// output. Scores travel through subgroup shuffles, or through workgroup memory without subgroups.
// Limits: with subgroups W must be the real subgroup size (it is probed when the device is opened).
{{ decls }}
{$ include "include/grid.wgsl" $}

const W = {{ W }}u;
const D = {{ D }}u;         // values of a K row
const DV = {{ DV }}u;       // values of a V row
const D4 = {{ (D + 3) // 4 }}u;
const V4 = {{ (DV + 3) // 4 }}u;
const MASKED = -1e30;

$$ set VL = ((DV + 3) // 4 + W - 1) // W
$$ if not uses_subgroups
var<workgroup> shared_p: array<f32, {{ W * NQ }}>;
$$ endif

$$ macro loader(name, mode, size)
fn load_{{ name }}(base: u32, i: u32) -> vec4<f32> {
$$ if mode == "f32x4"
    return {{ caller() }}[base + i];
$$ elif mode == "f16x4"
    let w = {{ caller() }}[base + i];
    return vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y));
$$ else
    var r = vec4<f32>(0.0);
    for (var j = 0u; j < 4u; j++) {
        let e = i * 4u + j;
        if (e < {{ size }}) {
$$ if mode == "f32"
            r[j] = {{ caller() }}[base + e];
$$ else
            let half = unpack2x16float({{ caller() }}[(base + e) >> 1u]);
            r[j] = select(half.x, half.y, ((base + e) & 1u) == 1u);
$$ endif
        }
    }
    return r;
$$ endif
}
$$ endmacro
{$ call loader("q", q_mode, "D") $}{{ q }}{$ endcall $}
{$ call loader("k", k_mode, "D") $}{{ k }}{$ endcall $}
{$ call loader("v", v_mode, "DV") $}{{ v }}{$ endcall $}

fn slope_of(head: u32) -> f32 {
$$ if alibi
    if (head < P.n_head_log2) {
        return pow(P.m0, f32(head + 1u));
    }
    return pow(P.m1, f32(2u * (head - P.n_head_log2) + 1u));
$$ else
    return 1.0;
$$ endif
}

// A row beyond the last one repeats it: its result is not stored.
fn row_head(row: u32, kv_head: u32) -> u32 {
    return kv_head * P.group + row % P.group;
}

$$ if mask is defined
fn mask_at(query: u32, head: u32, seq: u32, token: u32) -> f32 {
    let e = P.off_mask * 2u
        + ((seq % P.mask_ne3) * P.mask_ne2 + head % P.mask_ne2) * P.mask_s2
        + query * P.n_kv + token;
    let half = unpack2x16float({{ mask }}[e >> 1u]);
    return select(half.x, half.y, (e & 1u) == 1u);
}
$$ endif

@compute @workgroup_size({{ W }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let n_rows = P.n_q * P.group;
    let n_blocks = (n_rows + {{ NQ - 1 }}u) / {{ NQ }}u;
    let flat = flat_group(wg);
    if (flat >= n_blocks * P.n_head_kv * P.n_seq) {
        return;
    }
    let block = flat % n_blocks;
    let kv_head = (flat / n_blocks) % P.n_head_kv;
    let seq = flat / (n_blocks * P.n_head_kv);

    let k_base = P.off_k{{ " * 2u" if k_mode == "f16" else "" }} + kv_head * P.k_s2
        + (seq / P.seq_per_k) * P.k_s3;
    let v_base = P.off_v{{ " * 2u" if v_mode == "f16" else "" }} + kv_head * P.v_s2
        + (seq / P.seq_per_k) * P.v_s3;
$$ for r in range(NQ)
    let row{{ r }} = min(block * {{ NQ }}u + {{ r }}u, n_rows - 1u);
    let head{{ r }} = row_head(row{{ r }}, kv_head);
    let query{{ r }} = row{{ r }} / P.group;
    let q_base{{ r }} = P.off_q + query{{ r }} * P.q_s1 + head{{ r }} * P.q_s2 + seq * P.q_s3;
    let slope{{ r }} = slope_of(head{{ r }});
    var m{{ r }} = MASKED;
    var l{{ r }} = 0.0;
$$ for x in range(VL)
    var o{{ r }}_{{ x }} = vec4<f32>(0.0);
$$ endfor
$$ endfor

    for (var t0 = 0u; t0 < P.n_kv; t0 += W) {
        let token = min(t0 + lane, P.n_kv - 1u);
        let inside = t0 + lane < P.n_kv;
$$ for r in range(NQ)
$$ if mask is defined
        let bias{{ r }} = mask_at(query{{ r }}, head{{ r }}, seq, token);
        let live{{ r }} = inside && bias{{ r }} > -60000.0;
$$ else
        let bias{{ r }} = 0.0;
        let live{{ r }} = inside;
$$ endif
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
        for (var i = 0u; i < D4; i++) {
            let kk = load_k(k_row, i);
$$ for r in range(NQ)
            s{{ r }} += dot(load_q(q_base{{ r }}, i), kk);
$$ endfor
        }
$$ for r in range(NQ)
        s{{ r }} *= P.scale;
$$ if softcap
        s{{ r }} = P.softcap * tanh(clamp(s{{ r }}, -40.0, 40.0));
$$ endif
        s{{ r }} = select(MASKED, s{{ r }} + slope{{ r }} * bias{{ r }}, live{{ r }});
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
        o{{ r }}_{{ x }} *= c{{ r }};
$$ endfor
$$ endfor
        for (var j = 0u; j < W; j++) {
            let v_row = v_base + min(t0 + j, P.n_kv - 1u) * P.v_s1;
$$ for r in range(NQ)
$$ if uses_subgroups
            let w{{ r }} = subgroupShuffle(p{{ r }}, j);
$$ else
            let w{{ r }} = shared_p[{{ r }}u * W + j];
$$ endif
$$ endfor
$$ for x in range(VL)
            {
                let vv = load_v(v_row, min(lane + {{ x }}u * W, V4 - 1u));
$$ for r in range(NQ)
                o{{ r }}_{{ x }} += w{{ r }} * vv;
$$ endfor
            }
$$ endfor
        }
$$ if not uses_subgroups
        workgroupBarrier();
$$ endif
    }

$$ for r in range(NQ)
    {
$$ if sinks is defined
        let sink = {{ sinks }}[P.off_sinks + head{{ r }}];
        let top = max(m{{ r }}, sink);
        let keep = exp(m{{ r }} - top);
        let total = l{{ r }} * keep + exp(sink - top);
$$ else
        let keep = 1.0;
        let total = l{{ r }};
$$ endif
        // A row with every position masked has no weights: its result is zero.
        let f = select(0.0, keep / total, total > 0.0);
        let out = P.off_dst + ((seq * P.n_q + query{{ r }}) * P.n_head + head{{ r }}) * DV;
        if (block * {{ NQ }}u + {{ r }}u < n_rows) {
$$ for x in range(VL)
            for (var j = 0u; j < 4u; j++) {
                let d = (lane + {{ x }}u * W) * 4u + j;
                if (d < DV) {
                    {{ dst }}[out + d] = o{{ r }}_{{ x }}[j] * f;
                }
            }
$$ endfor
        }
    }
$$ endfor
}
