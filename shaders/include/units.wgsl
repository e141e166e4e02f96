{# One lane per element of a result (two for pairs of 16-bit values), for kernels that need its
   coordinates. Constants and parameters come from ops/_units.py. Needs grid.wgsl and half.wgsl.

   reader(name, var, type): fn <name>_at(i) -> f32, element i of an operand
   main(dst):               the entry point; the template defines fn value(i0, i1, i2, i3) -> f32 #}
{$ from "include/scalar.wgsl" import base, bits16, writer $}
{$ macro reader(name, var, type) $}
fn {{ name }}_at(i: u32) -> f32 {
    let at = {{ base(name, type) }} + i;
$$ if type in bits16
    return {{ type }}_of({{ var }}[at >> 1u], at);
$$ else
    return {{ var }}[at];
$$ endif
}
{$ endmacro $}

{$ macro main(dst) $}
{{ writer("dst", dst, dst_type, "i0 * P.dst_s0 + i1 * P.dst_s1 + i2 * P.dst_s2 + i3 * P.dst_s3", store) }}
@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let unit_id = flat_group(wg) * {{ wg }}u + lane;
    if (unit_id >= P.n_units) { return; }
    let line = unit_id / P.n0;
    let plane = line / P.n1;
$$ if store == "pair"
    let i{{ order[0] }} = (unit_id - line * P.n0) * 2u;
$$ else
    let i{{ order[0] }} = unit_id - line * P.n0;
$$ endif
    let i{{ order[1] }} = line - plane * P.n1;
    let i{{ order[3] }} = plane / P.n2;
    let i{{ order[2] }} = plane - i{{ order[3] }} * P.n2;
$$ if store == "pair"
    let hi = value({$ for i in range(4) $}i{{ i }}{{ " + 1u" if i == order[0] }}{{ ", " if i < 3 }}{$ endfor $});
    store_dst(i0, i1, i2, i3, value(i0, i1, i2, i3), hi);
$$ else
    store_dst(i0, i1, i2, i3, value(i0, i1, i2, i3));
$$ endif
}
{$ endmacro $}
