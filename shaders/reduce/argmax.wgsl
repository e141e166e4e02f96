// dst[row] = index of the largest value; the last one among equals, as ggml counts.
//
// Bindings: src0 (f32), dst (u32). Params: n, n_rows, src0_s1 (elements).
// Grid: one workgroup of W lanes a row, flat. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ from "include/reduce.wgsl" import reduction with context $}
struct Best { value: f32, index: u32 }
fn better(a: Best, b: Best) -> Best {
    if (b.value > a.value || (b.value == a.value && b.index > a.index)) { return b; }
    return a;
}
{{ reduction("best", "better(a, b)", "Best") }}

@compute @workgroup_size({{ W }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(wg);
    if (row >= P.n_rows) { return; }
    let x = P.off_src0 + row * P.src0_s1;
    var value = -3.4e38;
    var index = 0u;
    for (var i = lane; i < P.n; i += {{ W }}u) {
        let v = {{ src0 }}[x + i];
        if (v >= value) { value = v; index = i; }
    }
    let found = best(lane, Best(value, index));
    if (lane == 0u) { {{ dst }}[P.off_dst + row] = found.index; }
}
