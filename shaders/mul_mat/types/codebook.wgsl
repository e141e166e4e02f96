{#- What the codebook types share. `w_grid` holds the table (backends/wgpu/codebooks.py): bytes of
    eight weights, or of four (iq3). Codes of iq2 and iq3 are 64 + weight. -#}
{$ macro entry(i) $}{{ w_grid }}[P.off_w_grid + ({{ i }})]{$ endmacro $}
{$ macro functions(kind) $}
{$ if kind == "iq1" $}
// Sixteen weights of entries a and b: eighths above -1 and, where bit 0 or 1 of `plus` is set, two
// more; 9 is weight 0.
fn eighths(a: vec2<u32>, b: vec2<u32>, plus: u32) -> vec4<u32> {
    return vec4<u32>(a + vec2<u32>((plus & 1u) * 0x02020202u), b + vec2<u32>((plus >> 1u) * 0x02020202u));
}
{$ else $}
// Bytes 64 + g, or 64 - g where bits 0..3 of `signs` are set.
fn signed4(g: u32, signs: u32) -> u32 {
    return 0x40404040u + g - ((g & (spread4(signs) * 255u)) << 1u);
}
fn signed16(g: vec4<u32>, signs: u32) -> vec4<u32> {
    return vec4<u32>(signed4(g.x, signs), signed4(g.y, signs >> 4u), signed4(g.z, signs >> 8u), signed4(g.w, signs >> 12u));
}
// Two stored signs of seven bits each as eight; the last makes the number of minus signs even.
fn even_signs(s: u32) -> u32 {
    let a = s & 127u;
    let b = (s >> 7u) & 127u;
    return a | ((countOneBits(a) & 1u) << 7u) | (b << 8u) | ((countOneBits(b) & 1u) << 15u);
}
{$ endif $}
{$ endmacro $}
