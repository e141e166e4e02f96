// Formats with a scale and a minimum for a group of values: Q2_K Q4_K Q5_K.
{$ set group, top, first_step, count = {
    "q2_K": (16, 3, -0.5, 15), "q4_K": (32, 15, -1.0, 20), "q5_K": (32, 31, -0.5, 15),
}[dst_type] $}
const GROUP = {{ group }}u;
const TOP = {{ top }}.0;

fn code_of(x: f32, inverse: f32, low: f32) -> f32 {
    return clamp(round(inverse * (x - low)), 0.0, TOP);
}

// Weighted error of codes made with (inverse, from) and read with (scale, low).
fn fit_error(first: u32, mean: f32, inverse: f32, from_low: f32, scale: f32, low: f32) -> f32 {
    var sum = 0.0;
    for (var i = first; i < first + GROUP; i++) {
        let diff = scale * code_of(value(i), inverse, from_low) + low - value(i);
$$ if dst_type == "q2_K"
        sum += (mean + abs(value(i))) * abs(diff);
$$ else
        sum += (mean + abs(value(i))) * (diff * diff);
$$ endif
    }
    return sum;
}

fn set_codes(first: u32, inverse: f32, low: f32) {
    for (var i = first; i < first + GROUP; i++) {
        set_code(i, u32(code_of(value(i), inverse, low)));
    }
}

// Scale and negated minimum of a group; also its codes. Values weigh mean + |x|. Every guess of the
// inverse scale is improved by weighted least squares; the one that leaves the smallest error stays.
fn fit_affine(first: u32, mean: f32) -> vec2<f32> {
    var low = min(0.0, value(first));
    var high = value(first);
    var sum_w = 0.0;
    var sum_x = 0.0;
    for (var i = first; i < first + GROUP; i++) {
        low = min(low, value(i));
        high = max(high, value(i));
        sum_w += mean + abs(value(i));
        sum_x += (mean + abs(value(i))) * value(i);
    }
    if (high == low) {
        for (var i = first; i < first + GROUP; i++) { set_code(i, 0u); }
        return vec2<f32>(0.0, -low);
    }
    var inverse = TOP / (high - low);
    var scale = 1.0 / inverse;
    var least = fit_error(first, mean, inverse, low, scale, low);
    set_codes(first, inverse, low);
    for (var k = 0u; k <= {{ count }}u; k++) {
        // max changes nothing: it keeps compilers from adding the two constants up first
        inverse = (max({{ first_step }} + 0.1 * f32(k), -1.0) + TOP) / (high - low);
        var sum_l = 0.0;
        var sum_l2 = 0.0;
        var sum_xl = 0.0;
        for (var i = first; i < first + GROUP; i++) {
            let l = code_of(value(i), inverse, low);
            let wl = (mean + abs(value(i))) * l;
            sum_l += wl;
            sum_l2 += wl * l;
            sum_xl += wl * value(i);
        }
        let det = sum_w * sum_l2 - sum_l * sum_l;
        if (det > 0.0) {
            var new_scale = (sum_w * sum_xl - sum_x * sum_l) / det;
            var new_low = (sum_l2 * sum_x - sum_l * sum_xl) / det;
            if (new_low > 0.0) {
                new_scale = sum_xl / sum_l2;
                new_low = 0.0;
            }
            let error = fit_error(first, mean, inverse, low, new_scale, new_low);
            if (error < least) {
                set_codes(first, inverse, low);
                least = error;
                scale = new_scale;
                low = new_low;
            }
        }
    }
    return vec2<f32>(scale, -low);
}

fn encode() {
    var fits: array<vec2<f32>, {{ 256 // group }}>;
    var most = vec2<f32>(0.0);
    for (var g = 0u; g < {{ 256 // group }}u; g++) {
        var mean = 0.0;
$$ if dst_type != "q2_K"
        for (var i = g * GROUP; i < (g + 1u) * GROUP; i++) { mean += value(i) * value(i); }
        mean = sqrt(mean / {{ group }}.0);
$$ endif
        fits[g] = fit_affine(g * GROUP, mean);
        most = max(most, fits[g]);
    }
    most = select(most, vec2<f32>(0.0), most == vec2<f32>(0.0)); // no -0
    let d = put_half({{ 80 if dst_type == "q2_K" else 0 }}u, most.x / P.top);
    let dmin = put_half({{ 82 if dst_type == "q2_K" else 2 }}u, most.y / P.top);
    let inverse = select(vec2<f32>(P.top) / most, vec2<f32>(0.0), most == vec2<f32>(0.0));
    for (var g = 0u; g < {{ 256 // group }}u; g++) {
        let steps = vec2<u32>(vec2<i32>(round(inverse * fits[g]))) & vec2<u32>(255u);
$$ if dst_type == "q2_K"
        put(g, (steps.x | (steps.y << 4u)) & 255u);
        let kept = steps & vec2<u32>(15u);
$$ else
        let kept = min(steps, vec2<u32>(63u));
        put_scales(g, kept);
$$ endif
        let scale = d * f32(kept.x);
        let low = dmin * f32(kept.y);
        if (scale != 0.0) { // else the codes of the search stay
            for (var i = g * GROUP; i < (g + 1u) * GROUP; i++) {
                set_code(i, u32(clamp(round((value(i) + low) / scale), 0.0, TOP)));
            }
        }
    }
$$ if dst_type == "q2_K"
    put_two_bits(16u, 0u);
$$ else
    for (var h = 0u; h < 4u; h++) {
        put_nibbles({{ 16 if dst_type == "q4_K" else 48 }}u + h * 32u, h * 64u, 32u);
    }
$$ if dst_type == "q5_K"
    put_one_bit(16u, 4u);
$$ endif
$$ endif
}
$$ if dst_type != "q2_K"
// A 6-bit scale and minimum: bytes 4..7 and 8..11 for groups 0..3; for the others the lower four bits
// in bytes 12..15, the upper two on top of those bytes.
fn put_scales(g: u32, steps: vec2<u32>) {
    if (g < 4u) {
        put(4u + g, steps.x);
        put(8u + g, steps.y);
    } else {
        put(g, (steps.x >> 4u) << 6u);
        put(4u + g, (steps.y >> 4u) << 6u);
        put(8u + g, (steps.x & 15u) | ((steps.y & 15u) << 4u));
    }
}
$$ endif
