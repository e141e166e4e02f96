{#- K and V of types that the wide loads do not take, at any byte: bf16, block formats, and plain types
    out of step. A unit is eight values.

    loader(name, var, type, size): fn load_<name>(base, i), values 8 i .. 8 i + 7 of a row of `size`
    values that starts at byte `base` -#}
{$ from "mul_mat/types/levels.wgsl" import iq4_function $}
{#- block length, bytes -#}
{$ set formats = {
    "f32": (8, 32), "f16": (8, 16), "bf16": (8, 16), "q8_0": (32, 34), "q4_0": (32, 18),
    "q4_1": (32, 20), "q5_0": (32, 22), "q5_1": (32, 24), "iq4_nl": (32, 18), "q1_0": (128, 18),
    "q2_0": (64, 18),
} $}
{$ macro functions() $}
fn four_bytes(w: u32) -> vec4<f32> {
    return vec4<f32>((vec4<u32>(w) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u));
}
// Bits 0..3 as bit 0 of each byte.
fn four_bits(bits: u32) -> u32 {
    return ((bits & 15u) * 0x00204081u) & 0x01010101u;
}
{{ iq4_function("levels_of", "vec4<u32>(w) & vec4<u32>(0xFu, 0xF00u, 0xF0000u, 0xF000000u)", (1, 256, 65536, 16777216)) }}
{$ endmacro $}

{$ macro loader(name, var, type, size) $}
{$ set block, nbytes = formats[type] $}
// Four bytes from byte `at` on.
fn word_{{ name }}(at: u32) -> u32 {
    let shift = (at & 3u) * 8u;
    // in two steps, since a shift by 32 is none
    return ({{ var }}[at >> 2u] >> shift) | (({{ var }}[(at >> 2u) + 1u] << (31u - shift)) << 1u);
}
fn load_{{ name }}(base: u32, i: u32) -> Unit {
    var r: Unit;
    let at = base + (i / {{ block // 8 }}u) * {{ nbytes }}u;
    let p = i % {{ block // 8 }}u;
{$ if block > 8 $}
    let dm = unpack2x16float(word_{{ name }}(at));
{$ endif $}
{$ if type == "f32" $}
    r.a = vec4<f32>(bitcast<f32>(word_{{ name }}(at)), bitcast<f32>(word_{{ name }}(at + 4u)), bitcast<f32>(word_{{ name }}(at + 8u)), bitcast<f32>(word_{{ name }}(at + 12u)));
    r.b = vec4<f32>(bitcast<f32>(word_{{ name }}(at + 16u)), bitcast<f32>(word_{{ name }}(at + 20u)), bitcast<f32>(word_{{ name }}(at + 24u)), bitcast<f32>(word_{{ name }}(at + 28u)));
{$ elif type in ("f16", "bf16") $}
    let w = vec4<u32>(word_{{ name }}(at), word_{{ name }}(at + 4u), word_{{ name }}(at + 8u), word_{{ name }}(at + 12u));
{$ if type == "f16" $}
    r.a = vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y));
    r.b = vec4<f32>(unpack2x16float(w.z), unpack2x16float(w.w));
{$ else $}
    r.a = bitcast<vec4<f32>>(vec4<u32>(w.x << 16u, w.x & 0xFFFF0000u, w.y << 16u, w.y & 0xFFFF0000u));
    r.b = bitcast<vec4<f32>>(vec4<u32>(w.z << 16u, w.z & 0xFFFF0000u, w.w << 16u, w.w & 0xFFFF0000u));
{$ endif $}
{$ elif type == "q8_0" $}
    let q = at + 2u + p * 8u;
    r.a = (four_bytes(word_{{ name }}(q) ^ 0x80808080u) - 128.0) * dm.x;
    r.b = (four_bytes(word_{{ name }}(q + 4u) ^ 0x80808080u) - 128.0) * dm.x;
{$ elif type == "q1_0" $}
    let bits = word_{{ name }}(at + 2u + p);
    r.a = (2.0 * four_bytes(four_bits(bits)) - 1.0) * dm.x;
    r.b = (2.0 * four_bytes(four_bits(bits >> 4u)) - 1.0) * dm.x;
{$ elif type == "q2_0" $}
    let bits = word_{{ name }}(at + 2u + p * 2u);
    let shifts = vec4<u32>(0u, 2u, 4u, 6u);
    r.a = (vec4<f32>((vec4<u32>(bits) >> shifts) & vec4<u32>(3u)) - 1.0) * dm.x;
    r.b = (vec4<f32>((vec4<u32>(bits >> 8u) >> shifts) & vec4<u32>(3u)) - 1.0) * dm.x;
{$ else $}
    // sixteen bytes of nibbles: values 0..15 low, 16..31 high
    let q = at + {{ nbytes - 16 }}u + (p & 1u) * 8u;
    var w = (vec2<u32>(word_{{ name }}(q), word_{{ name }}(q + 4u)) >> vec2<u32>((p >> 1u) * 4u)) & vec2<u32>(0x0F0F0F0Fu);
{$ if type in ("q5_0", "q5_1") $}
    let fifth = word_{{ name }}(at + {{ nbytes - 20 }}u) >> (p * 8u);
    w |= vec2<u32>(four_bits(fifth), four_bits(fifth >> 4u)) << vec2<u32>(4u);
{$ endif $}
{$ if type == "iq4_nl" $}
    r.a = levels_of(w.x) * dm.x;
    r.b = levels_of(w.y) * dm.x;
{$ elif type in ("q4_1", "q5_1") $}
    r.a = four_bytes(w.x) * dm.x + dm.y;
    r.b = four_bytes(w.y) * dm.x + dm.y;
{$ else $}
    r.a = (four_bytes(w.x) - {{ 8 if type == "q4_0" else 16 }}.0) * dm.x;
    r.b = (four_bytes(w.y) - {{ 8 if type == "q4_0" else 16 }}.0) * dm.x;
{$ endif $}
{$ endif $}
{$ if size % 8 $}
    // what lies past the row's end counts as 0
    let left = vec4<i32>({{ size }} - 8 * i32(i)) - vec4<i32>(0, 1, 2, 3);
    r.a = select(vec4<f32>(0.0), r.a, left > vec4<i32>(0));
    r.b = select(vec4<f32>(0.0), r.b, left > vec4<i32>(4));
{$ endif $}
    return r;
}
{$ endmacro $}
