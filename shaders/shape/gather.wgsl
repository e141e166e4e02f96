// dst[i] = src0[j] where `keep` holds, else the 32 bits `other`, moved bit for bit. j (vec4<u32>),
// keep and other are expressions (ops/_gather.py) of the coordinates i of dst, the sizes n of src0
// and up to four numbers a.
//
// Bindings: src0 (absent without `reads`), dst: u32 words, or 16-bit elements in u32 words; dst may
// be src0 where j is i. Params: the walk's, src0_n0..3, src0_s0..3 (elements), a0..a3, other.
// Grid: one lane per unit of the walk: an element, or a pair of 16-bit ones. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ from "include/walk.wgsl" import coords with context $}
{$ from "include/scalar.wgsl" import base $}
{$ set kind = "i16" if width == 2 else "u32" $}

fn value(i: vec4<u32>) -> u32 {
    let a = vec4<u32>(P.a0, P.a1, P.a2, P.a3);
$$ if reads
    let n = vec4<u32>(P.src0_n0, P.src0_n1, P.src0_n2, P.src0_n3);
    let j = {{ j }};
    if (!({{ keep }})) { return {{ other }}; }
    let at = {{ base("src0", kind) }} + j.x * P.src0_s0 + j.y * P.src0_s1 + j.z * P.src0_s2 + j.w * P.src0_s3;
$$ if width == 2
    let word = {$ if src0_atomic $}atomicLoad(&{{ src0 }}[at >> 1u]){$ else $}{{ src0 }}[at >> 1u]{$ endif $};
    return (word >> (16u * (at & 1u))) & 0xffffu;
$$ else
    return {{ src0 }}[at];
$$ endif
$$ else
    return {{ other }};
$$ endif
}

fn place(i0: u32, i1: u32, i2: u32, i3: u32) -> u32 {
    return {{ base("dst", kind) }} + {{ at_dst }};
}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
{{ coords() }}
$$ if store == "pair"
    let lo = value(vec4<u32>(2u * i0, i1, i2, i3));
    let hi = value(vec4<u32>(2u * i0 + 1u, i1, i2, i3));
    {{ dst }}[place(2u * i0, i1, i2, i3) >> 1u] = lo | (hi << 16u);
$$ elif store == "atomic"
    let v = value(vec4<u32>(i0, i1, i2, i3));
    let at = place(i0, i1, i2, i3);
    let bit = 16u * (at & 1u);
    atomicAnd(&{{ dst }}[at >> 1u], ~(0xffffu << bit));
    atomicOr(&{{ dst }}[at >> 1u], v << bit);
$$ else
    {{ dst }}[place(i0, i1, i2, i3)] = value(vec4<u32>(i0, i1, i2, i3));
$$ endif
}
