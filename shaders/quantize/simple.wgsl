// Formats with one scale a block, from its largest value or its range: Q1_0 Q2_0 Q4_0 Q4_1 Q5_0 Q5_1
// Q8_0 TQ1_0 TQ2_0.
$$ if dst_type in ("q4_0", "q5_0")
$$ set half, top = (8, 15) if dst_type == "q4_0" else (16, 31)
fn encode() {
    let d = signed_peak(0u, 32u) / -{{ half }}.0;
    put(0u, f16_bits(d));
    let inverse = inverse_of(d);
    for (var i = 0u; i < 32u; i++) {
        set_code(i, min(u32(value(i) * inverse + {{ half }}.5), {{ top }}u));
$$ if dst_type == "q5_0"
        put(2u + (i >> 3u), (code(i) >> 4u) << (i & 7u));
$$ endif
    }
    put_nibbles({{ 2 if dst_type == "q4_0" else 6 }}u, 0u, 16u);
}
$$ elif dst_type in ("q4_1", "q5_1")
$$ set top = 15 if dst_type == "q4_1" else 31
fn encode() {
    var low = value(0);
    var high = value(0);
    for (var i = 1u; i < 32u; i++) {
        low = min(low, value(i));
        high = max(high, value(i));
    }
    let d = (high - low) / P.top;
    put(0u, f16_bits(d));
    put(2u, f16_bits(low));
    let inverse = inverse_of(d);
    for (var i = 0u; i < 32u; i++) {
        set_code(i, min(u32((value(i) - low) * inverse + 0.5), {{ top }}u));
$$ if dst_type == "q5_1"
        put(4u + (i >> 3u), (code(i) >> 4u) << (i & 7u));
$$ endif
    }
    put_nibbles({{ 4 if dst_type == "q4_1" else 8 }}u, 0u, 16u);
}
$$ elif dst_type == "q8_0"
fn encode() {
    let d = abs(signed_peak(0u, 32u)) / P.top;
    put(0u, f16_bits(d));
    let inverse = inverse_of(d);
    for (var i = 0u; i < 32u; i++) {
        put(2u + i, u32(i32(round_away(value(i) * inverse))) & 255u);
    }
}
$$ elif dst_type == "q1_0"
fn encode() {
    var sum = 0.0;
    for (var i = 0u; i < 128u; i++) {
        sum += abs(value(i));
        put(2u + (i >> 3u), select(0u, 1u, value(i) >= 0.0) << (i & 7u));
    }
    put(0u, f16_bits(sum / 128.0));
}
$$ else
// Codes 0, 1, 2 (q2_0: up to 3) of values over the largest magnitude, which is the scale.
fn encode() {
    let d = abs(signed_peak(0u, {{ block_size }}u));
    put({{ {"q2_0": 0, "tq1_0": 52, "tq2_0": 64}[dst_type] }}u, f16_bits(d));
    let inverse = inverse_of(d);
    for (var i = 0u; i < {{ block_size }}u; i++) {
        set_code(i, u32(clamp(round_away(value(i) * inverse) + 1.0, 0.0, 3.0)));
    }
$$ if dst_type == "q2_0"
    for (var i = 0u; i < 64u; i++) {
        put(2u + (i >> 2u), code(i) << (2u * (i & 3u)));
    }
$$ elif dst_type == "tq2_0"
    put_two_bits(0u, 0u);
$$ else
    put_digits(0u, 0u, 32u, 5u);
    put_digits(32u, 160u, 16u, 5u);
    put_digits(48u, 240u, 4u, 4u);
$$ endif
}
$$ if dst_type == "tq1_0"
// Ternary digits `width` apart, the first the highest, as fractions of 256 with five digits.
fn put_digits(at: u32, first: u32, width: u32, count: u32) {
    for (var j = 0u; j < width; j++) {
        var total = 0u;
        for (var k = 0u; k < 5u; k++) {
            total *= 3u;
            if (k < count) { total += code(first + k * width + j); }
        }
        put(at + j, (total * 256u + 242u) / 243u); // rounded up
    }
}
$$ endif
$$ endif
