// Merges neighbouring sorted runs of pairs. A lane moves one pair: its place is its own number plus
// that of the pairs before it in the other run, found by bisection.
//
// Bindings: src0 (vec2<u32> pairs), dst: u32 indices if `last`, else pairs; both pairs in scratch
// memory. Params: n_units (pairs in all), total (pairs a row), run (pairs a run; the last of a row may
// have fewer), out_run, out_total (pairs kept of a merged run, of a row), row0, and if `last` n1, n2,
// dst strides. Grid: one lane per pair, flat. Limits: none.
{{ decls }}
{$ from "include/rows.wgsl" import row_coords $}
{$ include "include/grid.wgsl" $}
{$ include "sort/pairs.wgsl" $}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let unit_id = flat_group(wg) * {{ wg }}u + lane;
    if (unit_id >= P.n_units) { return; }
    let row = unit_id / P.total;
    let i = unit_id - row * P.total;
    let run = i / P.run;
    let x = P.off_src0 + row * P.total;
    let pair = {{ src0 }}[x + i];
    let first = min((run ^ 1u) * P.run, P.total);
    var low = first;
    var high = min(first + P.run, P.total);
    while (low < high) {
        let middle = (low + high) / 2u;
        if (before({{ src0 }}[x + middle], pair)) { low = middle + 1u; } else { high = middle; }
    }
    let place = i - run * P.run + low - first;
    if (place >= P.out_run) { return; }
$$ if last
{{ row_coords("P.row0 + row") }}
    {{ dst }}[P.off_dst + i1 * P.dst_s1 + i2 * P.dst_s2 + i3 * P.dst_s3 + place] = pair.y;
$$ else
    {{ dst }}[P.off_dst + row * P.out_total + (run >> 1u) * P.out_run + place] = pair;
$$ endif
}
