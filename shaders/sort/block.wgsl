// Sorts blocks of rows: pairs (key, index) in workgroup memory, by a bitonic network. No two pairs
// are equal, so that equal values keep their order and results repeat.
//
// Bindings: src0 (f32 as u32), dst: u32 indices if `last`, else vec2<u32> pairs in scratch memory.
// Params: n (values a row), blocks (a row), n1, n2, src0 and (`last`) dst strides in elements, row0
// (first row of this dispatch), n_units (blocks in all), size (power of two, at most CAPACITY: values
// a block), keep (pairs written of a block), total (pairs written of a row), flip (~0 for descending).
// Grid: one workgroup of W lanes a block, flat. Limits: CAPACITY * 8 bytes of workgroup memory.
{{ decls }}
{$ from "include/rows.wgsl" import row_coords $}
{$ include "include/grid.wgsl" $}
{$ include "sort/pairs.wgsl" $}
var<workgroup> pairs: array<vec2<u32>, {{ CAPACITY }}>;

@compute @workgroup_size({{ W }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let unit_id = flat_group(wg);
    if (unit_id >= P.n_units) { return; }
    let row = unit_id / P.blocks;
    let block = unit_id - row * P.blocks;
{{ row_coords("P.row0 + row") }}
    let x = P.off_src0 + i1 * P.src0_s1 + i2 * P.src0_s2 + i3 * P.src0_s3;
    let first = block * P.size;
    for (var i = lane; i < P.size; i += {{ W }}u) {
        var pair = NOTHING;
        if (first + i < P.n) {
            pair = vec2<u32>(sort_key({{ src0 }}[x + (first + i) * P.src0_s0], P.flip), first + i);
        }
        pairs[i] = pair;
    }
    workgroupBarrier();
    for (var k = 2u; k <= P.size; k <<= 1u) {
        for (var j = k >> 1u; j > 0u; j >>= 1u) {
            for (var t = lane; t < P.size / 2u; t += {{ W }}u) {
                let i = 2u * t - (t & (j - 1u)); // the t-th number without bit j
                let a = pairs[i];
                let b = pairs[i + j];
                if (before(b, a) == ((i & k) == 0u)) {
                    pairs[i] = b;
                    pairs[i + j] = a;
                }
            }
            workgroupBarrier();
        }
    }
    let count = min(P.keep, P.n - first);
$$ if last
    let y = P.off_dst + i1 * P.dst_s1 + i2 * P.dst_s2 + i3 * P.dst_s3;
    for (var i = lane; i < count; i += {{ W }}u) { {{ dst }}[y + i] = pairs[i].y; }
$$ else
    let y = P.off_dst + row * P.total + block * P.keep;
    for (var i = lane; i < count; i += {{ W }}u) { {{ dst }}[y + i] = pairs[i]; }
$$ endif
}
