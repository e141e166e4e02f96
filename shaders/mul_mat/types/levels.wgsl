{#- Types whose 4-bit codes number a value: functions from four codes (bytes of a word) to values. -#}
{$ macro iq4() $}
// -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113: a polynomial of degree 4 that misses
// them by 0.433 at most, rounded.
fn iq4x4(w: u32) -> vec4<f32> {
    let t = vec4<f32>((vec4<u32>(w) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(15u)) - 8.0;
    return round((((0.001586043 * t + 0.08183981) * t - 0.01681205) * t + 11.43981) * t + 1.43299);
}
{$ endmacro $}
{$ macro fp4() $}
// 0 1 2 3 4 6 8 12, negative from code 8 on: floats of 1 sign, 2 exponent, 1 mantissa bit, doubled.
fn fp4x4(w: u32) -> vec4<f32> {
    let code = (vec4<u32>(w) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(15u);
    let t = vec4<f32>(code & vec4<u32>(7u));
    let size = max(max(t, 2.0 * t - 4.0), 4.0 * t - 16.0);
    return select(size, -size, code > vec4<u32>(7u));
}
{$ endmacro $}
