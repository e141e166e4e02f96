// dst = f(x, y), x from gate and y from up: act(x) * y in gated units, where gate and up are two
// tensors or the two halves of each row of one; other expressions in ops/backward.py.
//
// Bindings: gate, up (one binding when they are halves), dst; out (storage texture, rgba32float) if
// `stage`: a second copy of a contiguous dst, for matrix products. Params: the walk's, p0, p1.
// Grid: one lane per unit of the walk. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
$$ if stage
{$ include "include/texel.wgsl" $}
$$ endif
{$ include "include/math.wgsl" $}
{$ from "include/scalar.wgsl" import reader, writer $}
{{ reader("gate", gate, gate_type, at_gate, vtype, gate_atomic) }}
{{ reader("up", up, up_type, at_up, vtype, up_atomic) }}
{{ writer("dst", dst, dst_type, at_dst, store, vtype) }}

fn value(i0: u32, i1: u32, i2: u32, i3: u32) -> {{ vtype }} {
    let x = load_gate(i0, i1, i2, i3);
    let y = load_up(i0, i1, i2, i3);
$$ if stage
    let v = {{ function }};
    textureStore({{ out }}, texel(i0), v);
    return v;
$$ else
    return {{ function }};
$$ endif
}
{$ include "include/elementwise_main.wgsl" $}
