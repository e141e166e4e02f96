{# Reductions over the W lanes of a workgroup; every lane gets the result.

   Few lanes (software adapters): one barrier before and one after, every lane adds up all partial
   values. Many lanes: a tree. No subgroup functions, so no subgroup size matters.
   reduction(fn_name, expression of a and b, type) defines fn <fn_name>(lane, value). #}
{$ macro reduction(name, combine, type="f32") $}
var<workgroup> part_{{ name }}: array<{{ type }}, {{ W }}>;
fn {{ name }}(lane: u32, value: {{ type }}) -> {{ type }} {
    workgroupBarrier(); // the previous use of the array is over
    part_{{ name }}[lane] = value;
    workgroupBarrier();
$$ if W <= 16
    var a = part_{{ name }}[0];
    for (var i = 1u; i < {{ W }}u; i++) {
        let b = part_{{ name }}[i];
        a = {{ combine }};
    }
    return a;
$$ else
    for (var half = {{ W // 2 }}u; half > 0u; half >>= 1u) {
        if (lane < half) {
            let a = part_{{ name }}[lane];
            let b = part_{{ name }}[lane + half];
            part_{{ name }}[lane] = {{ combine }};
        }
        workgroupBarrier();
    }
    return part_{{ name }}[0];
$$ endif
}
{$ endmacro $}
