// Formats whose 4-bit codes number a level: IQ4_NL and IQ4_XS.
var<private> LEVELS: array<f32, 16> = array<f32, 16>(
    -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0);

// Number of the level nearest to x; of two equally near the upper.
fn closest_level(x: f32) -> u32 {
    var i = select(0u, 8u, LEVELS[8] <= x);
    i += select(0u, 4u, LEVELS[i + 4u] <= x);
    i += select(0u, 2u, LEVELS[i + 2u] <= x);
    i += select(0u, 1u, LEVELS[i + 1u] <= x);
    let upper = clamp(i + 1u, 1u, 15u);
    return upper - select(0u, 1u, x - LEVELS[upper - 1u] < LEVELS[upper] - x);
}

// Sums of weight * level * x and weight * level^2 over 32 values, weights x^2.
fn level_sums(first: u32, inverse: f32) -> vec2<f32> {
    var sums = vec2<f32>(0.0);
    for (var i = first; i < first + 32u; i++) {
        let x = value(i);
        let weighted = (x * x) * LEVELS[closest_level(inverse * x)];
        sums += vec2<f32>(weighted * x, weighted * LEVELS[closest_level(inverse * x)]);
    }
    return sums;
}

// The scale that fits 32 values best: from the first guess, then `tries` steps to either side.
fn fit_levels(first: u32, tries: i32) -> f32 {
    let peak = signed_peak(first, 32u);
    if (abs(peak) < 1e-15) { return 0.0; }
    var sums = level_sums(first, 1.0 / ({{ "-" if dst_type == "iq4_xs" else "" }}peak / -P.top));
    var d = select(0.0, sums.x / sums.y, sums.y > 0.0);
    var best = d * sums.x;
    for (var step = -tries; step <= tries && tries > 0; step++) {
        sums = level_sums(first, (f32(step) - 127.0) / peak);
        if (sums.y > 0.0 && sums.x * sums.x > best * sums.y) {
            d = sums.x / sums.y;
            best = d * sums.x;
        }
    }
    return d;
}

fn encode_levels(first: u32, inverse: f32) {
    for (var i = first; i < first + 32u; i++) {
        set_code(i, closest_level(inverse * value(i)));
    }
}
$$ if dst_type == "iq4_nl"
fn encode() {
    put(0u, f16_bits(fit_levels(0u, 0)));
    encode_levels(0u, inverse_of(signed_peak(0u, 32u) / -P.top)); // the codes of the first guess
    put_nibbles(2u, 0u, 16u);
}
$$ else
fn encode() {
    var scales: array<f32, 8>;
    var most = 0.0;
    for (var g = 0u; g < 8u; g++) {
        scales[g] = fit_levels(g * 32u, 7);
        if (abs(scales[g]) > abs(most)) { most = scales[g]; }
    }
    let d = -most / 32.0;
    put(0u, f16_bits(d));
    let inverse = inverse_of(d);
    for (var g = 0u; g < 8u; g++) {
        let step = clamp(round(inverse * scales[g]), -32.0, 31.0);
        encode_levels(g * 32u, inverse_of(d * step));
        put_nibbles(8u + g * 16u, g * 32u, 16u);
        let raised = u32(step + 32.0);
        put(4u + (g >> 1u), (raised & 15u) << (4u * (g & 1u)));
        put(2u + (g >> 2u), (raised >> 4u) << (2u * (g & 3u)));
    }
}
$$ endif
