// Formats of 4-bit floats: MXFP4 (a power of two for 32 values) and NVFP4 (an 8-bit float for 16).
var<private> FP4_DOUBLED: array<f32, 16> = array<f32, 16>(
    0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0);

// Codes of the nearest values; of equally near ones the first.
fn closest_fp4(first: u32, n: u32, d: f32) {
    for (var i = first; i < first + n; i++) {
        var best = 0u;
        var least = abs(value(i));
        for (var code = 1u; code < 16u; code++) {
            let error = abs(FP4_DOUBLED[code] * d - value(i));
            if (error < least) {
                best = code;
                least = error;
            }
        }
        set_code(i, best);
    }
}
$$ if dst_type == "mxfp4"
fn encode() {
    let peak = abs(signed_peak(0u, 32u));
    let e = clamp(i32(bitcast<u32>(peak) >> 23u) - 2, 0, 254); // the exponent less 2
    put(0u, u32(e));
    closest_fp4(0u, 32u, bitcast<f32>(select(u32(e - 1) << 23u, 0x00200000u << u32(e), e < 2)));
    put_nibbles(1u, 0u, 16u);
}
$$ else
// Unsigned e4m3, to nearest, halves up; what rounds to 256 or more becomes 448.
fn to_e4m3(x: f32) -> u32 {
    let bits = bitcast<u32>(min(x, 448.0));
    if ((bits >> 23u) <= 120u) {
        return u32(min(x * 512.0 + 0.5, 7.0));
    }
    let code = ((bits + (1u << 19u)) >> 20u) - (120u << 3u);
    return select(code, 0x7Eu, code >= 0x78u);
}
fn half_of_e4m3(b: u32) -> f32 {
    let small = f32(b & 7u) * 0.0009765625;
    let normal = bitcast<f32>(((b & 127u) << 20u) + (119u << 23u));
    return select(select(normal, small, (b & 0x78u) == 0u), 0.0, b == 127u);
}
fn encode() {
    for (var g = 0u; g < 4u; g++) {
        let d = to_e4m3(abs(signed_peak(g * 16u, 16u)) / P.top);
        put(g, d);
        closest_fp4(g * 16u, 16u, half_of_e4m3(d));
        put_nibbles(4u + g * 8u, g * 16u, 8u);
    }
}
$$ endif
