// The block at hand: its values `xs`, their codes, its bytes (zeros at first). A family file defines
// fn encode(), which fills the bytes.
var<private> place: vec4<u32>;
fn value(i: u32) -> f32 { return load_src0(place.x + i, place.y, place.z, place.w); }
var<private> codes: array<u32, {{ block_size // 4 }}>; // a byte each
fn code(i: u32) -> u32 { return extractBits(codes[i >> 2u], (i & 3u) * 8u, 8u); }
fn set_code(i: u32, c: u32) { codes[i >> 2u] = insertBits(codes[i >> 2u], c, (i & 3u) * 8u, 8u); }
var<private> block: array<u32, {{ (block_bytes + 3) // 4 }}>;

// Adds the bits of a byte, or of two bytes at an even place.
fn put(at: u32, bits: u32) {
    block[at >> 2u] |= bits << ((at & 3u) * 8u);
}

// Stores a number as f16 and gives back what a reader will see.
fn put_half(at: u32, x: f32) -> f32 {
    let bits = f16_bits(x);
    put(at, bits);
    return unpack2x16float(bits).x;
}

// Codes below 16 at first .. first + 2 n - 1 as n bytes: the first half low, the second high.
fn put_nibbles(at: u32, first: u32, n: u32) {
    for (var j = 0u; j < n; j++) {
        put(at + j, (code(first + j) & 15u) | ((code(first + n + j) & 15u) << 4u));
    }
}

$$ if block_size == 256
// Two bits, from `bit` on, of each code: four codes, 32 apart, a byte.
fn put_two_bits(at: u32, bit: u32) {
    for (var i = 0u; i < 256u; i++) {
        put(at + (i >> 7u) * 32u + (i & 31u), ((code(i) >> bit) & 3u) << (2u * ((i >> 5u) & 3u)));
    }
}

// One bit of each code: eight codes, 32 apart, a byte.
fn put_one_bit(at: u32, bit: u32) {
    for (var i = 0u; i < 256u; i++) {
        put(at + (i & 31u), ((code(i) >> bit) & 1u) << (i >> 5u));
    }
}
$$ endif

// Of n values the first with the largest magnitude.
fn signed_peak(first: u32, n: u32) -> f32 {
    var peak = 0.0;
    for (var i = first; i < first + n; i++) {
        if (abs(value(i)) > abs(peak)) { peak = value(i); }
    }
    return peak;
}

// 1 / d, and 0 where d is 0 or below the smallest normal number, which devices may take for 0.
fn inverse_of(d: f32) -> f32 {
    return select(1.0 / d, 0.0, abs(d) < 1.1754944e-38);
}

// To nearest, halves away from zero.
fn round_away(x: f32) -> f32 {
    let whole = trunc(x);
    return whole + select(0.0, sign(x), abs(x - whole) >= 0.5);
}
