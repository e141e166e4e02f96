// dst = src0, bit for bit, both of any layout.
//
// Bindings: src0, dst: u32 or vec4<u32> words; or u32 words of 16- or 8-bit elements.
// Params: the walk's. Grid: one lane per unit of the walk: a word, a pair of 16-bit elements of one
// word of dst, or an element. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ from "include/walk.wgsl" import coords with context $}
{$ from "include/scalar.wgsl" import base $}

fn i16_of(word: u32, i: u32) -> u32 { return (word >> (16u * (i & 1u))) & 0xffffu; }
fn i8_of(word: u32, i: u32) -> u32 { return (word >> (8u * (i & 3u))) & 0xffu; }

{$ set kind = {1: "i8", 2: "i16"}.get(width, "u32") $}
{$ set shift = {1: "2u", 2: "1u"}.get(width, "0u") $}
fn load_src0(i0: u32, i1: u32, i2: u32, i3: u32) -> {{ vtype }} {
    let at = {{ base("src0", kind) }} + {{ at_src0 }};
$$ if width < 4
    return {{ kind }}_of({$ if src0_atomic $}atomicLoad(&{{ src0 }}[at >> {{ shift }}]){$ else $}{{ src0 }}[at >> {{ shift }}]{$ endif $}, at);
$$ else
    return {{ src0 }}[at];
$$ endif
}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
{{ coords() }}
$$ if store == "pair"
    let lo = load_src0(2u * i0, i1, i2, i3);
    let hi = load_src0(2u * i0 + 1u, i1, i2, i3);
    {{ dst }}[(place(2u * i0, i1, i2, i3)) >> 1u] = lo | (hi << 16u);
$$ elif store == "atomic"
    let v = load_src0(i0, i1, i2, i3);
    let at = place(i0, i1, i2, i3);
    let bit = {{ 8 * width }}u * (at & {{ 4 // width - 1 }}u);
    atomicAnd(&{{ dst }}[at >> {{ shift }}], ~({{ "0xffffu" if width == 2 else "0xffu" }} << bit));
    atomicOr(&{{ dst }}[at >> {{ shift }}], v << bit);
$$ else
    {{ dst }}[place(i0, i1, i2, i3)] = load_src0(i0, i1, i2, i3);
$$ endif
}

fn place(i0: u32, i1: u32, i2: u32, i3: u32) -> u32 {
    return {{ base("dst", kind) }} + {{ at_dst }};
}
