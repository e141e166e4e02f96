// Angles in turns modulo 1 as 32-bit integers, where the product with a position wraps exactly: no
// accuracy is lost at large positions, whatever the device's sine does with large angles.
// Sine of t turns, |t| <= 1/8, and cosine: Taylor polynomials, error below 1e-7.
fn sin_turn(t: f32) -> f32 {
    let x = t * 6.283185307179586;
    let s = x * x;
    return x * (1.0 + s * (-0.16666667 + s * (0.008333333 + s * (-0.00019841270 + s * 2.7557319e-6))));
}
fn cos_turn(t: f32) -> f32 {
    let x = t * 6.283185307179586;
    let s = x * x;
    return 1.0 + s * (-0.5 + s * (0.041666668 + s * (-0.0013888889 + s * (2.4801587e-5 - s * 2.7557319e-7))));
}
// (cosine, sine) of an angle of `turns` / 2^32 turns.
fn circle(turns: u32) -> vec2<f32> {
    let quarter = (turns + 0x20000000u) >> 30u; // nearest multiple of a quarter turn
    let rest = f32(bitcast<i32>(turns - (quarter << 30u))) * 2.3283064365386963e-10;
    let c = cos_turn(rest);
    let s = sin_turn(rest);
    let odd = vec2<f32>(-s, c);
    let even = vec2<f32>(c, s);
    let v = select(even, odd, (quarter & 1u) == 1u);
    return select(v, -v, (quarter & 2u) == 2u);
}
// (hi, lo): 64 bits of a frequency in turns per position. Upper half of its product with p.
fn turns_of(hi: u32, lo: u32, p: u32) -> u32 {
    // upper 32 bits of lo * p from 16-bit halves
    let a = (lo & 0xffffu) * (p & 0xffffu);
    let b = (lo >> 16u) * (p & 0xffffu) + (a >> 16u);
    let c = (lo & 0xffffu) * (p >> 16u) + (b & 0xffffu);
    return hi * p + (lo >> 16u) * (p >> 16u) + (b >> 16u) + (c >> 16u);
}
$$ if has_factors
// The fraction of 2^32 that a frequency in turns (below 1) makes, to 48 bits.
fn split(turns: f32) -> vec2<u32> {
    let t = turns * 65536.0;
    let whole = floor(t);
    let rest = (t - whole) * 65536.0;
    let part = floor(rest);
    return vec2<u32>((u32(whole) << 16u) | u32(part), u32((rest - part) * 65536.0) << 16u);
}
$$ endif
