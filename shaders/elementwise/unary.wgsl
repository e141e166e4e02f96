// dst = f(src0), f being one expression of x (ops/elementwise.py) with parameters P.p0 .. P.p3.
//
// Bindings: src0, dst (f32, vec4<f32>, or f16/bf16 as u32 words), in place or not.
// Params: the walk's, p0..p3. Grid: one lane per unit of the walk. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ include "include/math.wgsl" $}
{$ from "include/scalar.wgsl" import reader, writer $}
{{ reader("src0", src0, src0_type, at_src0, vtype, src0_atomic) }}
{{ writer("dst", dst, dst_type, at_dst, store, vtype) }}

fn value(i0: u32, i1: u32, i2: u32, i3: u32) -> {{ vtype }} {
    let x = load_src0(i0, i1, i2, i3);
    return {{ function }};
}
{$ include "include/elementwise_main.wgsl" $}
