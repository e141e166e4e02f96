// What is sorted: (key, index). Behind all real pairs:
const NOTHING = vec2<u32>(0xffffffffu, 0xffffffffu);

// Bits of an f32 as a number that grows with it, or falls with `flip` ~0. Both zeros are equal, and
// NaN comes last either way.
fn sort_key(bits: u32, flip: u32) -> u32 {
    if ((bits & 0x7fffffffu) > 0x7f800000u) { return 0xffffffffu; }
    let u = select(bits, 0u, bits == 0x80000000u);
    return u ^ select(0x80000000u, 0xffffffffu, (u >> 31u) == 1u) ^ flip;
}

fn before(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.x < b.x || (a.x == b.x && a.y < b.y);
}
