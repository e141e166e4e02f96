// Copies an image (or a kernel, whose outputs count as a batch) into a texture, four channels a
// texel: texel number (((n size2 + i2) size1 + i1) size0 + i0) quads + q holds channels 4 q .. 4 q +
// 3 of place (i0, i1, i2), zero past the last channel.
//
// Bindings: x (f32, or 16-bit floats in u32 words), out (storage texture, rgba32float).
// Params: size0 .. size2, channels, quads, total; x_s0 .. x_s2, x_sc, x_sn steps in elements.
// Grid: one lane per texel, flat. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ include "include/texel.wgsl" $}
{$ from "include/units.wgsl" import reader with context $}
{{ reader("x", x, x_type) }}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(wg) * {{ wg }}u + lane;
    if (at >= P.total) { return; }
    let place = at / P.quads;
    let c = (at - place * P.quads) * 4u;
    let line = place / P.size0;
    let plane = line / P.size1;
    let n = plane / P.size2;
    let start = (place - line * P.size0) * P.x_s0 + (line - plane * P.size1) * P.x_s1
        + (plane - n * P.size2) * P.x_s2 + n * P.x_sn;
    var v = vec4<f32>(0.0);
    for (var i = 0u; i < 4u; i++) {
        if (c + i < P.channels) { v[i] = x_at(start + (c + i) * P.x_sc); }
    }
    textureStore({{ out }}, texel(at), v);
}
