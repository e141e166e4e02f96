// dst = src0 OP src1, src1 repeating along any dimension.
//
// Bindings: src0, src1, dst (f32, vec4<f32>, or f16/bf16 as u32 words), in place or not.
// Params: sizes and strides of the walk (ops/_walk.py). Grid: one lane per unit of the walk, a unit
// being an element, a vec4 or a pair of 16-bit values. Limits: none beyond the bindings'.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ from "include/scalar.wgsl" import reader, writer $}
{{ reader("src0", src0, src0_type, at_src0, vtype, src0_atomic) }}
{{ reader("src1", src1, src1_type, at_src1, src1_vtype, src1_atomic) }}
{{ writer("dst", dst, dst_type, at_dst, store, vtype) }}

fn value(i0: u32, i1: u32, i2: u32, i3: u32) -> {{ vtype }} {
    return load_src0(i0, i1, i2, i3) {{ operator }} load_src1(i0, i1, i2, i3);
}
{$ include "include/elementwise_main.wgsl" $}
