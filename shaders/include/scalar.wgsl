{# Loads and stores of plain element types. f16 and bf16 lie two in a u32 word; `P.<name>_h` says
   whether an operand begins in the upper half of its first word.

   reader(name, var, type, at, value, atomic): fn load_<name>(i0..i3) -> value
   writer(name, var, type, at, store):         fn store_<name>(i0..i3, v), with `store` one of
     "whole"   one element is one array element (32-bit types and vectors of them)
     "pair"    two 16-bit elements at an even place: store_<name>(i0..i3, lo, hi)
     "atomic"  single 16-bit (or 8-bit) elements; neighbours in the word belong to other lanes
   `at` is the WGSL index of the element without the operand's offset. #}
{$ set bits16 = ("f16", "bf16", "i16") $}
{$ macro base(name, type) $}
{$ if type in bits16 $}P.off_{{ name }} * 2u + P.{{ name }}_h{$ elif type == "i8" $}P.off_{{ name }} * 4u + P.{{ name }}_h{$ else $}P.off_{{ name }}{$ endif $}
{$ endmacro $}

{$ macro reader(name, var, type, at, value="f32", atomic=false) $}
fn load_{{ name }}(i0: u32, i1: u32, i2: u32, i3: u32) -> {{ value }} {
    let at = {{ base(name, type) }} + {{ at }};
$$ if type in bits16
    let word = {$ if atomic $}atomicLoad(&{{ var }}[at >> 1u]){$ else $}{{ var }}[at >> 1u]{$ endif $};
    return {{ type }}_of(word, at);
$$ elif type == "i32" and value == "f32"
    return f32(bitcast<i32>({{ var }}[at]));
$$ else
    return {{ var }}[at];
$$ endif
}
{$ endmacro $}

{$ macro writer(name, var, type, at, store, value="f32") $}
$$ if store == "pair"
fn store_{{ name }}(i0: u32, i1: u32, i2: u32, i3: u32, lo: f32, hi: f32) {
    let at = {{ base(name, type) }} + {{ at }};
    {{ var }}[at >> 1u] = {{ type }}_bits(lo) | ({{ type }}_bits(hi) << 16u);
}
$$ elif store == "atomic"
fn store_{{ name }}(i0: u32, i1: u32, i2: u32, i3: u32, v: f32) {
    let at = {{ base(name, type) }} + {{ at }};
    let shift = 16u * (at & 1u);
    atomicAnd(&{{ var }}[at >> 1u], ~(0xffffu << shift));
    atomicOr(&{{ var }}[at >> 1u], {{ type }}_bits(v) << shift);
}
$$ else
fn store_{{ name }}(i0: u32, i1: u32, i2: u32, i3: u32, v: {{ value }}) {
    let at = {{ base(name, type) }} + {{ at }};
$$ if type == "i32" and value == "f32"
    {{ var }}[at] = bitcast<u32>(i32(v));
$$ else
    {{ var }}[at] = v;
$$ endif
}
$$ endif
{$ endmacro $}
