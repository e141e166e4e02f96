// 16-bit floats in u32 words, without the shader-f16 feature. Conversions to f16 and bf16 round to
// nearest even in integers: WGSL leaves the rounding of pack2x16float open, and devices differ.

fn f16_of(word: u32, i: u32) -> f32 {
    return unpack2x16float(word >> (16u * (i & 1u))).x;
}

fn bf16_of(word: u32, i: u32) -> f32 {
    return bitcast<f32>((word >> (16u * (i & 1u))) << 16u);
}

// Finite values past 65504 become 65504, so that a stored activation never turns infinite.
fn f16_bits(x: f32) -> u32 {
    let u = bitcast<u32>(x);
    let sign = (u >> 16u) & 0x8000u;
    let a = u & 0x7fffffffu;
    if (a >= 0x7f800000u) {
        return sign | select(0x7c00u, 0x7e00u, a > 0x7f800000u);
    }
    if (a >= 0x477fe000u) {
        return sign | 0x7bffu;
    }
    if (a < 0x38800000u) { // below 2^-14: steps of 2^-24
        return sign | u32(round(bitcast<f32>(a) * 16777216.0));
    }
    return sign | ((a + 0xfffu + ((a >> 13u) & 1u) - 0x38000000u) >> 13u);
}

fn bf16_bits(x: f32) -> u32 {
    let u = bitcast<u32>(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
        return (u >> 16u) | 64u;
    }
    return (u + 0x7fffu + ((u >> 16u) & 1u)) >> 16u;
}
