{#- tq1_0: value = d * (trit - 1). A byte is a fraction of 256 with five ternary digits; digit i is
    the whole part of 3 * (byte * 3^i mod 256) / 256. Chunks 0..4 are digit c of quads 0 and 1; the
    digits of quad 2 are 16 weights each: chunks 5, 6 and half of 7; the rest are four digits of the
    four bytes `h`. -#}
{$ from "mul_mat/fetch.wgsl" import quad, word, half with context $}
{$ set super, inner = 8, 1 $}
{$ macro block(s, n) $}
let d{{ s }} = unpack2x16float({{ half("d", n) }}).x;
let qa{{ s }} = {{ quad("q", n, "0u") }};
let qb{{ s }} = {{ quad("q", n, "1u") }};
let qc{{ s }} = {{ quad("q", n, "2u") }};
let h{{ s }} = {{ word("h", n) }};
{$ endmacro $}
{$ macro load(s, n, g) $}{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let first{{ s }} = ({{ g }}) < 5u;
let i{{ s }} = select((({{ g }}) - 5u) * 2u, {{ g }}, first{{ s }});
let wa{{ s }} = trits4(select(qc{{ s }}, qa{{ s }}, first{{ s }}), power3(i{{ s }}));
let last{{ s }} = vec4<u32>(h{{ s }}, times(h{{ s }}, 3u), times(h{{ s }}, 9u), times(h{{ s }}, 27u));
let rest{{ s }} = select(select(qc{{ s }}, last{{ s }}, ({{ g }}) == 7u), qb{{ s }}, first{{ s }});
let wb{{ s }} = trits4(rest{{ s }}, select(select(power3(i{{ s }} + 1u), 1u, ({{ g }}) == 7u), power3(i{{ s }}), first{{ s }}));
let sc{{ s }} = vec2<f32>(d{{ s }});
let mn{{ s }} = vec2<f32>(-d{{ s }});
{$ endmacro $}
{$ macro functions() $}
fn power3(i: u32) -> u32 {
    return select(select(select(1u, 3u, i == 1u), select(9u, 27u, i == 3u), i > 1u), 81u, i == 4u);
}
// Each byte of w times p, modulo 256.
fn times(w: u32, p: u32) -> u32 {
    let even = ((w & 0x00FF00FFu) * p) & 0x00FF00FFu;
    let odd = (((w >> 8u) & 0x00FF00FFu) * p) & 0x00FF00FFu;
    return even | (odd << 8u);
}
// The first ternary digit of each byte times p.
fn trits(w: u32, p: u32) -> u32 {
    let x = times(w, p);
    let even = (((x & 0x00FF00FFu) * 3u) >> 8u) & 0x00FF00FFu;
    let odd = ((((x >> 8u) & 0x00FF00FFu) * 3u) >> 8u) & 0x00FF00FFu;
    return even | (odd << 8u);
}
fn trits4(q: vec4<u32>, p: u32) -> vec4<u32> {
    return vec4<u32>(trits(q.x, p), trits(q.y, p), trits(q.z, p), trits(q.w, p));
}
{$ endmacro $}
