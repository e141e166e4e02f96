{#- q6_K: value = d * signed scale * (code - 32). Quads 0..7 are the lower four bits: group g of two
    chunks is quads 2 g and the next, turn 0 in the low nibbles and turn 1 in the high ones. Quad 12
    has sixteen scales. The upper two bits in packed regions: words 4 g + 2 v and the next from quad
    8 on (see backends/wgpu/packing.py); in the file's blocks: bits 2 (c & 3), chunk c, of quads
    8 + 2 (c / 4) and the next. -#}
{$ from "mul_mat/fetch.wgsl" import quad, half with context $}
{$ set super, inner = 8, 2 $}
{$ macro chunk_of(g, v) $}(({{ g }}) >> 1u) * 4u + (({{ g }}) & 1u) + ({{ v }}) * 2u{$ endmacro $}
{$ macro group_of(c) $}((({{ c }}) >> 2u) * 2u + (({{ c }}) & 1u)){$ endmacro $}
{$ macro turn_of(c) $}((({{ c }}) >> 1u) & 1u){$ endmacro $}
{$ macro block(s, n) $}
let d{{ s }} = unpack2x16float({{ half("d", n) }}).x;
let ss{{ s }} = {{ quad("q", n, "12u") }};
{$ endmacro $}
{$ macro load(s, n, g) $}
let la{{ s }} = {{ quad("q", n, "(" ~ g ~ ") * 2u") }};
let lb{{ s }} = {{ quad("q", n, "(" ~ g ~ ") * 2u + 1u") }};
{$ if w_mode == "native" $}
let ha{{ s }} = {{ quad("q", n, "8u + ((" ~ g ~ ") >> 1u) * 2u") }};
let hb{{ s }} = {{ quad("q", n, "9u + ((" ~ g ~ ") >> 1u) * 2u") }};
{$ else $}
let h{{ s }} = {{ quad("q", n, "8u + " ~ g) }};
{$ endif $}
{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let c{{ s }} = (({{ g }}) & 1u) + ({{ v }}) * 2u;
let sl{{ s }} = vec4<u32>(({{ v }}) * 4u);
{$ if w_mode == "native" $}
let sh{{ s }} = vec4<u32>(c{{ s }} * 2u);
let ua{{ s }} = ((ha{{ s }} >> sh{{ s }}) & vec4<u32>(0x03030303u)) << vec4<u32>(4u);
let ub{{ s }} = ((hb{{ s }} >> sh{{ s }}) & vec4<u32>(0x03030303u)) << vec4<u32>(4u);
{$ else $}
let u{{ s }} = select(h{{ s }}.xy, h{{ s }}.zw, ({{ v }}) == 1u);
let ua{{ s }} = upper2(u{{ s }}.x) & vec4<u32>(0x30303030u);
let ub{{ s }} = upper2(u{{ s }}.y) & vec4<u32>(0x30303030u);
{$ endif $}
let wa{{ s }} = ((la{{ s }} >> sl{{ s }}) & vec4<u32>(0x0F0F0F0Fu)) | ua{{ s }};
let wb{{ s }} = ((lb{{ s }} >> sl{{ s }}) & vec4<u32>(0x0F0F0F0Fu)) | ub{{ s }};
let sb{{ s }} = bitcast<i32>(
    pick(ss{{ s }}, (({{ g }}) >> 1u) * 2u + {{ v }}) >> ((({{ g }}) & 1u) * 16u));
let sc{{ s }} = d{{ s }} * vec2<f32>(vec2<i32>((sb{{ s }} << 24u) >> 24u, (sb{{ s }} << 16u) >> 24u));
let mn{{ s }} = sc{{ s }} * -32.0;
{$ endmacro $}
{$ macro functions() $}
// Bits 2 j of each byte moved to bits 4 and 5, for words j = 0..3.
fn upper2(h: u32) -> vec4<u32> {
    return vec4<u32>(h << 4u, h << 2u, h, h >> 2u);
}
{$ endmacro $}
