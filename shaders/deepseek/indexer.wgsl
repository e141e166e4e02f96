// dst[j, t, s] = sum over heads h of max(q[:, h, t, s] . k[:, j, s], 0) weights[h, t, s]
//   + mask[j, t, s], the mask repeating along s.
//
// Bindings: k (mul_mat/weights.wgsl), q (f32 or vec4<f32>), weights (f32), mask (f16 in u32 words),
// dst (f32). Constants: HB heads are computed at once; bcast lanes (8 or 4) load q together and hand
// it round, or 0: each lane loads it by itself.
// Params: chunks (of 32 values a key), n_heads, n_kv, n_q, n_groups, key_groups (workgroups a row of
// scores); w_off, k_s1, k_s2 (units of k from key to key, stream to stream), q_s1 .. q_s3,
// weights_s0, .._s1, .._s3, mask_s0, .._s1, .._s3, mask_n3, dst_s1, dst_s3 in elements.
// Grid: one lane per key, workgroups per query and stream, flat. Limits: values a multiple of 32.
{$ import "mul_mat/weights.wgsl" as W with context $}
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ from "include/units.wgsl" import reader $}
{{ W.functions() }}
{{ reader("mask", mask, "f16") }}

fn q_at(i: u32) -> vec4<f32> {
$$ if q_vec == 4
    return {{ q }}[P.off_q + (i >> 2u)];
$$ else
    let at = P.off_q + i;
    return vec4<f32>({{ q }}[at], {{ q }}[at + 1u], {{ q }}[at + 2u], {{ q }}[at + 3u]);
$$ endif
}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
$$ if bcast
    @builtin(subgroup_invocation_id) sub_lane: u32,
$$ endif
) {
    let group = flat_group(wg);
    if (group >= P.n_groups) { return; }
    let query = group / P.key_groups;
    let s = query / P.n_q;
    let t = query - s * P.n_q;
    let j = (group - query * P.key_groups) * {{ wg }}u + lane;
    // lanes past the end repeat the last key, since broadcasts need them
    let row = P.w_off + min(j, P.n_kv - 1u) * P.k_s1 + s * P.k_s2;
    let from_q = t * P.q_s2 + s * P.q_s3;
    let from_w = P.off_weights + t * P.weights_s1 + s * P.weights_s3;
    var score = 0.0;
    for (var h0 = 0u; h0 < P.n_heads; h0 += {{ HB }}u) {
$$ for h in range(HB)
        let head{{ h }} = from_q + min(h0 + {{ h }}u, P.n_heads - 1u) * P.q_s1;
        var product{{ h }} = 0.0;
$$ endfor
        for (var chunk = 0u; chunk < P.chunks; chunk++) {
            let b = row + chunk {{ "/ " ~ W.super if W.super > 1 else "* " ~ W.step }}u;
            {{ W.block("_k", "b") }}
            let c = {{ "chunk % " ~ W.super if W.super > 1 else 0 }}u;
            {{ W.chunk("_k", "b", "c") }}
$$ for i in range(8)
            let key{{ i }} = {{ W.vec("_k", i) }};
$$ endfor
$$ for h in range(HB)
            {
$$ if bcast
$$ for p in range(8 // bcast)
                let part{{ p }} = q_at(head{{ h }} + chunk * 32u + {{ 4 * p * bcast }}u + (sub_lane & {{ bcast - 1 }}u) * 4u);
$$ endfor
$$ for i in range(8)
                product{{ h }} += dot(key{{ i }}, subgroupBroadcast(part{{ i // bcast }}, {{ i % bcast }}u));
$$ endfor
$$ else
$$ for i in range(8)
                product{{ h }} += dot(key{{ i }}, q_at(head{{ h }} + chunk * 32u + {{ 4 * i }}u));
$$ endfor
$$ endif
            }
$$ endfor
        }
$$ for h in range(HB)
        if (h0 + {{ h }}u < P.n_heads) {
            score += max(product{{ h }}, 0.0) * {{ weights }}[from_w + (h0 + {{ h }}u) * P.weights_s0];
        }
$$ endfor
    }
    if (j < P.n_kv) {
        let bias = mask_at(j * P.mask_s0 + t * P.mask_s1 + (s % P.mask_n3) * P.mask_s3);
        {{ dst }}[P.off_dst + j + t * P.dst_s1 + s * P.dst_s3] = score + bias;
    }
}
