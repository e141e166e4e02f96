// Formats with a signed scale for 16 values and none for their middle: Q3_K and Q6_K.
{$ set half = 4 if dst_type == "q3_K" else 32 $}
const LOWEST = -{{ half }}.0;
const HIGHEST = {{ half - 1 }}.0;

// Stores codes (from 0 on) of a group on the inverse scale; gives sums of weight * x * code and
// weight * code^2, weights x^2, codes as they are meant (0 in the middle).
fn sums_of(first: u32, inverse: f32) -> vec2<f32> {
    var sums = vec2<f32>(0.0);
    for (var i = first; i < first + 16u; i++) {
        let x = value(i);
        let l = clamp(round(inverse * x), LOWEST, HIGHEST);
        sums += vec2<f32>(((x * x) * x) * l, ((x * x) * l) * l);
    }
    return sums;
}

fn set_codes(first: u32, inverse: f32) {
    for (var i = first; i < first + 16u; i++) {
        set_code(i, u32(clamp(round(inverse * value(i)), LOWEST, HIGHEST) - LOWEST));
    }
}
$$ if dst_type == "q6_K"
// The scale of a group, and its codes: the best of 19 guesses around "largest magnitude at code 0".
fn fit(first: u32) -> f32 {
    let peak = signed_peak(first, 16u);
    if (abs(peak) < 1e-15) { return 0.0; }
    var inverse = LOWEST / peak;
    var sums = sums_of(first, inverse);
    var scale = select(0.0, sums.x / sums.y, sums.y != 0.0);
    var best = scale * sums.x;
    set_codes(first, inverse);
    for (var k = -9; k <= 9; k++) {
        inverse = (LOWEST - 0.1 * f32(k)) / peak;
        sums = sums_of(first, inverse);
        if (k != 0 && sums.y > 0.0 && sums.x * sums.x > best * sums.y) {
            scale = sums.x / sums.y;
            best = scale * sums.x;
            set_codes(first, inverse);
        }
    }
    return scale;
}
$$ else
// The scale of a group, and its codes: from "largest magnitude at code 0" on each value in turn takes
// another code if the whole group gains by it.
fn fit(first: u32) -> f32 {
    let peak = signed_peak(first, 16u);
    if (abs(peak) < 1e-15) { return 0.0; }
    set_codes(first, LOWEST / peak);
    var sums = sums_of(first, LOWEST / peak);
    for (var turn = 0u; turn < 5u; turn++) {
        for (var i = first; i < first + 16u; i++) {
            let x = value(i);
            let w = x * x;
            let old = f32(code(i)) + LOWEST;
            var lx = sums.x - w * x * old;
            var l2 = sums.y - w * old * old;
            if (lx > 0.0) {
                let code = clamp(round(x * l2 / lx), LOWEST, HIGHEST);
                lx += w * x * code;
                l2 += w * code * code;
                if (code != old && l2 > 0.0 && lx * lx * sums.y > sums.x * sums.x * l2) {
                    set_code(i, u32(code - LOWEST));
                    sums = vec2<f32>(lx, l2);
                }
            }
        }
    }
    return select(0.0, sums.x / sums.y, sums.y > 0.0);
}
$$ endif

$$ set top = 32 if dst_type == "q3_K" else 128
fn encode() {
    var scales: array<f32, 16>;
    var most = 0.0;
    for (var g = 0u; g < 16u; g++) {
        scales[g] = fit(g * 16u);
        if (abs(scales[g]) > abs(most)) { most = scales[g]; }
    }
    if (abs(most) < {{ "1e-15" if dst_type == "q6_K" else "1.1754944e-38" }}) { return; } // all bytes zero
    let inverse = -{{ top }}.0 / most;
    let d = put_half({{ 108 if dst_type == "q3_K" else 208 }}u, 1.0 / inverse);
    for (var g = 0u; g < 16u; g++) {
        let step = clamp(round(inverse * scales[g]), -{{ top }}.0, {{ top - 1 }}.0);
        put_scale(g, step);
        let scale = d * step;
        if (scale != 0.0) { // else the codes of the search stay
            for (var i = g * 16u; i < (g + 1u) * 16u; i++) {
                set_code(i, u32(clamp(round(value(i) / scale), LOWEST, HIGHEST) - LOWEST));
            }
        }
    }
$$ if dst_type == "q3_K"
    put_one_bit(0u, 2u);
    put_two_bits(32u, 0u);
$$ else
    put_nibbles(0u, 0u, 64u);
    put_nibbles(64u, 128u, 64u);
    put_two_bits(128u, 4u);
$$ endif
}

fn put_scale(g: u32, step: f32) {
$$ if dst_type == "q6_K"
    put(192u + g, u32(i32(step)) & 255u);
$$ else
    let raised = u32(step + 32.0);
    put(96u + (g & 7u), (raised & 15u) << (4u * (g >> 3u)));
    put(104u + (g & 3u), (raised >> 4u) << (2u * (g >> 2u)));
$$ endif
}
