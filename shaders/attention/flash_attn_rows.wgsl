// softmax(q k^T * scale + mask) v with an online softmax: a lane a row (query, head).
//
// For adapters without subgroup functions that compute on the host's cores: no lane needs another,
// so there is no barrier; the lanes of a workgroup belong to one K/V head and read the same K and V.
// Bindings: as flash_attn.wgsl.
// Grid: a workgroup of W lanes for W rows of one K/V head. Flat group index: row block, K/V head,
// sequence. TB cached positions are taken at a time.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "attention/common.wgsl" $}
$$ set DU = (D + U - 1) // U
$$ set VU = (DV + U - 1) // U
$$ set parts = ["a", "b"][:U // 4]

@compute @workgroup_size({{ W }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let n_rows = P.n_q * P.group;
    let n_blocks = (n_rows + {{ W - 1 }}u) / {{ W }}u;
    let flat = flat_group(wg);
    if (flat >= n_blocks * P.n_head_kv * P.n_seq) {
        return;
    }
    let row = (flat % n_blocks) * {{ W }}u + lane;
    let kv_head = (flat / n_blocks) % P.n_head_kv;
    let seq = flat / (n_blocks * P.n_head_kv);
    if (row >= n_rows) {
        return;
    }
    let query = row / P.group;
    let head = kv_head * P.group + row % P.group;
    let slope = slope_of(head);
    let q_base = P.off_q + query * P.q_s1 + head * P.q_s2 + seq * P.q_s3;
    let k_base = k_start(kv_head, seq);
    let v_base = v_start(kv_head, seq);
$$ for i in range(DU * (U // 4))
    let q{{ i }} = load_q(q_base, {{ i }}u);
$$ endfor
$$ for i in range(VU)
$$ for p in parts
    var o{{ i }}{{ p }} = vec4<f32>(0.0);
$$ endfor
$$ endfor
    var m = MASKED;
    var l = 0.0;

    for (var t0 = 0u; t0 < P.n_kv; t0 += {{ TB }}u) {
        var s: array<f32, {{ TB }}>;
        var top = m;
        for (var j = 0u; j < {{ TB }}u; j++) {
            let token = min(t0 + j, P.n_kv - 1u);
            let bias = mask_at(query, head, seq, token);
            let k_row = k_base + token * P.k_s1;
            var sum = 0.0;
$$ for i in range(DU)
            {
                let kk = load_k(k_row, {{ i }}u);
$$ for p in parts
                sum += dot(q{{ i * (U // 4) + loop.index0 }}, kk.{{ p }});
$$ endfor
            }
$$ endfor
            s[j] = scored(sum, slope, bias, t0 + j < P.n_kv && bias > HIDDEN);
            top = max(top, s[j]);
        }
        let c = exp(m - top);
        l *= c;
$$ for i in range(VU)
$$ for p in parts
        o{{ i }}{{ p }} *= c;
$$ endfor
$$ endfor
        for (var j = 0u; j < {{ TB }}u; j++) {
            let w = select(0.0, exp(s[j] - top), s[j] > MASKED);
            let v_row = v_base + min(t0 + j, P.n_kv - 1u) * P.v_s1;
            l += w;
$$ for i in range(VU)
            {
                let vv = load_v(v_row, {{ i }}u);
$$ for p in parts
                o{{ i }}{{ p }} += w * vv.{{ p }};
$$ endfor
            }
$$ endfor
        }
        m = top;
    }

    let f = final_factor(m, l, head);
    let out = P.off_dst + ((seq * P.n_q + query) * P.n_head + head) * {{ DV }}u;
$$ for i in range(VU)
$$ for p in parts
    for (var j = 0u; j < 4u; j++) {
        let d = {{ i * U + 4 * loop.index0 }}u + j;
        if (d < {{ DV }}u) {
            {{ dst }}[out + d] = o{{ i }}{{ p }}[j] * f;
        }
    }
$$ endfor
$$ endfor
}
