// Shared by the attention kernels: loading K and V in units of {{ U }} values, masks, ALiBi slopes.
// The including file declares bindings and the constants U, D, DV, k_mode, v_mode, alibi.
$$ macro loader(name, mode, size)
$$ set var = caller()
// {{ U }} values of a row that starts at `base`, the i-th unit of it, as {{ U // 4 }} vec4.
fn load_{{ name }}(base: u32, i: u32) -> Unit {
    var r: Unit;
$$ if mode == "f16x8"
    let w = {{ var }}[base + i];
    r.a = vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y));
    r.b = vec4<f32>(unpack2x16float(w.z), unpack2x16float(w.w));
$$ elif mode == "bf16x8"
    let w = {{ var }}[base + i];
    r.a = bitcast<vec4<f32>>(vec4<u32>(w.x << 16u, w.x & 0xFFFF0000u, w.y << 16u, w.y & 0xFFFF0000u));
    r.b = bitcast<vec4<f32>>(vec4<u32>(w.z << 16u, w.z & 0xFFFF0000u, w.w << 16u, w.w & 0xFFFF0000u));
$$ elif mode == "f16x4"
    let w = {{ var }}[base + i];
    r.a = vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y));
$$ elif mode == "f32x4"
$$ if U == 8
    r.a = {{ var }}[base + 2u * i];
    r.b = {{ var }}[base + 2u * i + 1u];
$$ else
    r.a = {{ var }}[base + i];
$$ endif
$$ else
    for (var j = 0u; j < 4u; j++) {
        let e = i * 4u + j;
        if (e < {{ size }}u) {
$$ if mode == "f32"
            r.a[j] = {{ var }}[base + e];
$$ else
            let half = unpack2x16float({{ var }}[(base + e) >> 1u]);
            r.a[j] = select(half.x, half.y, ((base + e) & 1u) == 1u);
$$ endif
        }
    }
$$ endif
    return r;
}
$$ endmacro
struct Unit {
    a: vec4<f32>,
$$ if U == 8
    b: vec4<f32>,
$$ endif
}
{$ import "attention/blocks.wgsl" as B $}
$$ if "bytes" in (k_mode, v_mode)
{{ B.functions() }}
$$ endif
$$ if k_mode == "bytes"
{{ B.loader("k", k, k_type, D) }}
$$ else
{$ call loader("k", k_mode, D) $}{{ k }}{$ endcall $}
$$ endif
$$ if v_mode == "bytes"
{{ B.loader("v", v, v_type, DV) }}
$$ else
{$ call loader("v", v_mode, DV) $}{{ v }}{$ endcall $}
$$ endif

// Four values of a query row, zeros past its end.
fn load_q(base: u32, i: u32) -> vec4<f32> {
$$ if q_mode == "f32x4"
    return {{ q }}[base + min(i, {{ D // 4 - 1 }}u)];
$$ else
    var r = vec4<f32>(0.0);
    for (var j = 0u; j < 4u; j++) {
        if (i * 4u + j < {{ D }}u) {
            r[j] = {{ q }}[base + i * 4u + j];
        }
    }
    return r;
$$ endif
}

fn k_start(kv_head: u32, seq: u32) -> u32 {
    return P.off_k{{ {"f16": " * 2u", "bytes": " * 4u + P.k_byte"}.get(k_mode, "") }} + kv_head * P.k_s2
        + (seq / P.seq_per_k) * P.k_s3;
}

fn v_start(kv_head: u32, seq: u32) -> u32 {
    return P.off_v{{ {"f16": " * 2u", "bytes": " * 4u + P.v_byte"}.get(v_mode, "") }} + kv_head * P.v_s2
        + (seq / P.seq_per_k) * P.v_s3;
}

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

// What is added to the score of `token`; -infinity (or close to it) hides the token.
fn mask_at(query: u32, head: u32, seq: u32, token: u32) -> f32 {
$$ if mask is defined
    let e = P.off_mask * 2u
        + ((seq % P.mask_ne3) * P.mask_ne2 + head % P.mask_ne2) * P.mask_s2
        + query * P.n_kv + token;
    let half = unpack2x16float({{ mask }}[e >> 1u]);
    return select(half.x, half.y, (e & 1u) == 1u);
$$ else
    return 0.0;
$$ endif
}

$$ if skip_chunks
// False when all 8 values from `token` on (a multiple of 8) are -infinity; the mask is one for all
// heads.
fn mask_shows(query: u32, seq: u32, token: u32) -> bool {
    let w = P.off_mask + ((seq % P.mask_ne3) * P.mask_ne2 * P.mask_s2 + query * P.n_kv + token) / 2u;
    let a = {{ mask }}[w];
    let b = {{ mask }}[w + 1u];
    let c = {{ mask }}[w + 2u];
    let d = {{ mask }}[w + 3u];
    let hidden = 0xFC00FC00u; // two f16 of -infinity
    return (a & b & c & d) != hidden || (a | b | c | d) != hidden;
}
$$ endif

const MASKED = -1e30;
// f16 cannot hold less; a mask below it means "not at all".
const HIDDEN = -60000.0;

fn scored(dot_product: f32, slope: f32, bias: f32, live: bool) -> f32 {
    var s = dot_product * P.scale;
$$ if softcap
    s = P.softcap * tanh(clamp(s, -40.0, 40.0));
$$ endif
    return select(MASKED, s + slope * bias, live);
}

// Factor for the accumulated values of a row: 1 / (sum of its weights), sinks included. A row with
// every position hidden has no weights: its result is zero.
fn final_factor(top: f32, sum: f32, head: u32) -> f32 {
$$ if sinks is defined
    let sink = {{ sinks }}[P.off_sinks + head];
    let high = max(top, sink);
    let keep = exp(top - high);
    let total = sum * keep + exp(sink - high);
    return select(0.0, keep / total, total > 0.0);
$$ else
    return select(0.0, 1.0 / sum, sum > 0.0);
$$ endif
}
