{# The entry point of element-wise templates: they define `value(i0..i3)` and have a `store_dst`. #}
{$ from "include/walk.wgsl" import coords with context $}
@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
{{ coords() }}
$$ if store == "pair"
    let lo = value(2u * i0, i1, i2, i3);
    let hi = value(2u * i0 + 1u, i1, i2, i3);
    store_dst(2u * i0, i1, i2, i3, lo, hi);
$$ else
    store_dst(i0, i1, i2, i3, value(i0, i1, i2, i3));
$$ endif
}
