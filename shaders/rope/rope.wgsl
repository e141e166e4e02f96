// Rotary position embedding: pairs of values are turned by position * frequency; values outside of
// the rotated dimensions are copied.
//
// Bindings: src0, dst (f32, or f16 in u32 words; dst may be src0), pos (u32), table (vec4<u32>: see
// ops/rope.py), ff (f32 divisors of the frequencies, if any).
// Params: n_pairs, half (distance of the two values of a pair), step (from pair to pair), first
// (value of pair 0), n1 heads, n2 tokens, n_units, strides in elements.
// Grid: one lane per pair and row, rotated pairs first, then pairs to copy; flat. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ from "include/scalar.wgsl" import reader, writer $}
{{ reader("src0", src0, src0_type, "i0 + i1 * P.src0_s1 + i2 * P.src0_s2 + i3 * P.src0_s3", "f32", atomic) }}
{{ writer("dst", dst, src0_type, "i0 + i1 * P.dst_s1 + i2 * P.dst_s2 + i3 * P.dst_s3", store) }}

{$ include "rope/angles.wgsl" $}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let unit_id = flat_group(wg) * {{ wg }}u + lane;
    if (unit_id >= P.n_units) { return; }
    let row = unit_id / P.n0;
    let k = unit_id - row * P.n0;
    let plane = row / P.n1;
    let i1 = row - plane * P.n1;
    let i3 = plane / P.n2;
    let i2 = plane - i3 * P.n2;
    if (k >= P.n_pairs) { // copied values, two a lane, around the rotated ones
        let j = 2u * (k - P.n_pairs);
        let i = select(j, j + 2u * P.n_pairs, j >= P.first);
        let lo = load_src0(i, i1, i2, i3);
        let hi = load_src0(i + 1u, i1, i2, i3);
        put(i, 1u, i1, i2, i3, lo, hi);
        return;
    }
    let entry = {{ table }}[P.off_table + k];
    let p = {{ pos }}[P.off_pos + i2 + entry.z * P.n2];
$$ if has_factors
    let f = split(bitcast<f32>(entry.w) / {{ ff }}[P.off_ff + k]);
    let turn = circle(turns_of(f.x, f.y, p)) * P.magnitude;
$$ else
    let turn = circle(turns_of(entry.x, entry.y, p)) * P.magnitude;
$$ endif
    let sine = turn.y * P.sign;
    let i = P.first + k * P.step;
    let x = load_src0(i, i1, i2, i3);
    let y = load_src0(i + P.half, i1, i2, i3);
    put(i, P.half, i1, i2, i3, x * turn.x - y * sine, x * sine + y * turn.x);
}

// Values i and i + d of a row.
fn put(i: u32, d: u32, i1: u32, i2: u32, i3: u32, a: f32, b: f32) {
$$ if store == "pair"
    store_dst(i, i1, i2, i3, a, b);
$$ else
    store_dst(i, i1, i2, i3, a);
    store_dst(i + d, i1, i2, i3, b);
$$ endif
}
