// dst[block] = src0's values in a block format, bit for bit what quants/ writes where divisions are
// exact; with `by_id`, rows of src0 go to rows ids[i1, i2, i3] of dst, ids repeating along
// dimensions 2 and 3, and rows past the end of dst are left out.
//
// Bindings: src0 (f32, or 16-bit floats in u32 words), ids (u32: an i64 takes two), dst: u32 words,
// atomic where blocks share them. Params: blocks (a row), n1, n2, n_units; strides of src0 in
// elements, of dst in bytes; dst_byte, the first block's place in its word; ids_s0 .. ids_s2 and
// ids_n1, ids_n2 (words, sizes), dst_rows; top, what a largest value is divided by: as a constant it
// would become a factor, which rounds differently. Grid: one lane per block, flat.
// Limits: row numbers below 2^32. Scales past f16's range become 65504.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ from "include/rows.wgsl" import row_coords $}
{$ from "include/scalar.wgsl" import reader $}
{{ reader("src0", src0, src0_type, "i0 * P.src0_s0 + i1 * P.src0_s1 + i2 * P.src0_s2 + i3 * P.src0_s3") }}
{$ set families = {
    "mxfp4": "fp4", "nvfp4": "fp4", "iq4_nl": "iq4", "iq4_xs": "iq4",
    "q2_K": "affine", "q4_K": "affine", "q5_K": "affine", "q3_K": "symmetric", "q6_K": "symmetric",
} $}
{$ include "quantize/block.wgsl" $}
{$ include "quantize/" ~ families.get(dst_type, "simple") ~ ".wgsl" $}

// The bytes of `block` to byte `at` of dst.
fn store_block(at: u32) {
$$ if store == "whole"
    for (var i = 0u; i < {{ block_bytes // 4 }}u; i++) {
        {{ dst }}[(at >> 2u) + i] = block[i];
    }
$$ else
    let shift = (at & 3u) * 8u;
    let end = at + {{ block_bytes }}u;
    var carry = 0u;
    for (var i = 0u; (at & ~3u) + 4u * i < end; i++) {
        let begins = (at & ~3u) + 4u * i;
        var word = carry;
        carry = 0u;
        if (i < {{ (block_bytes + 3) // 4 }}u) {
            word |= block[i] << shift;
            carry = (block[i] >> (31u - shift)) >> 1u; // in two steps, since a shift by 32 is none
        }
        // bytes of this word that are the block's
        var mask = 0xFFFFFFFFu;
        if (begins < at) { mask = mask << shift; }
        if (begins + 4u > end) { mask &= 0xFFFFFFFFu >> (8u * (begins + 4u - end)); }
        if (mask != 0xFFFFFFFFu) {
            atomicAnd(&{{ dst }}[begins >> 2u], ~mask);
            atomicOr(&{{ dst }}[begins >> 2u], word & mask);
        } else {
            atomicStore(&{{ dst }}[begins >> 2u], word);
        }
    }
$$ endif
}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let unit_id = flat_group(wg) * {{ wg }}u + lane;
    if (unit_id >= P.n_units) { return; }
    let line = unit_id / P.blocks;
    let i0 = unit_id - line * P.blocks;
{{ row_coords("line") }}
$$ if by_id
    let row = {{ ids }}[P.off_ids + i1 * P.ids_s0 + (i2 % P.ids_n1) * P.ids_s1 + (i3 % P.ids_n2) * P.ids_s2];
    if (row >= P.dst_rows) { return; }
$$ else
    let row = i1;
$$ endif
    place = vec4<u32>(i0 * {{ block_size }}u, i1, i2, i3);
    encode();
    store_block(P.off_dst * 4u + P.dst_byte + i0 * P.dst_s0 + row * P.dst_s1 + i2 * P.dst_s2 + i3 * P.dst_s3);
}
