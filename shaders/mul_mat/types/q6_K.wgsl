{#- q6_K: value = d * signed scale * (code - 32). Group g is half of the weights, turn v a chunk of
    it: the low nibbles (turns 0, 1) or high ones (2, 3) of quads 4 g + 2 (v & 1) and the next, upper
    two bits at 2 v of quads 8 + 2 g and the next; quad 12 has sixteen scales. -#}
{$ from "mul_mat/fetch.wgsl" import quad, half with context $}
{$ set super, inner = 8, 4 $}
{$ macro chunk_of(g, v) $}({{ g }}) * 4u + {{ v }}{$ endmacro $}
{$ macro group_of(c) $}(({{ c }}) >> 2u){$ endmacro $}
{$ macro turn_of(c) $}(({{ c }}) & 3u){$ endmacro $}
{$ macro block(s, n) $}
let d{{ s }} = unpack2x16float({{ half("d", n) }}).x;
let ss{{ s }} = {{ quad("q", n, "12u") }};
{$ endmacro $}
{$ macro load(s, n, g) $}
let la{{ s }} = {{ quad("q", n, "(" ~ g ~ ") * 4u") }};
let lb{{ s }} = {{ quad("q", n, "(" ~ g ~ ") * 4u + 1u") }};
let lc{{ s }} = {{ quad("q", n, "(" ~ g ~ ") * 4u + 2u") }};
let ld{{ s }} = {{ quad("q", n, "(" ~ g ~ ") * 4u + 3u") }};
let ha{{ s }} = {{ quad("q", n, "8u + (" ~ g ~ ") * 2u") }};
let hb{{ s }} = {{ quad("q", n, "9u + (" ~ g ~ ") * 2u") }};
{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let odd{{ s }} = (({{ v }}) & 1u) == 1u;
let sl{{ s }} = vec4<u32>((({{ v }}) >> 1u) * 4u);
let sh{{ s }} = vec4<u32>(({{ v }}) * 2u);
let wa{{ s }} = ((select(la{{ s }}, lc{{ s }}, odd{{ s }}) >> sl{{ s }}) & vec4<u32>(0x0F0F0F0Fu))
    | (((ha{{ s }} >> sh{{ s }}) & vec4<u32>(0x03030303u)) << vec4<u32>(4u));
let wb{{ s }} = ((select(lb{{ s }}, ld{{ s }}, odd{{ s }}) >> sl{{ s }}) & vec4<u32>(0x0F0F0F0Fu))
    | (((hb{{ s }} >> sh{{ s }}) & vec4<u32>(0x03030303u)) << vec4<u32>(4u));
let sb{{ s }} = bitcast<i32>(
    pick(ss{{ s }}, ({{ g }}) * 2u + (({{ v }}) >> 1u)) >> ((({{ v }}) & 1u) * 16u));
let sc{{ s }} = d{{ s }} * vec2<f32>(vec2<i32>((sb{{ s }} << 24u) >> 24u, (sb{{ s }} << 16u) >> 24u));
let mn{{ s }} = sc{{ s }} * -32.0;
{$ endmacro $}
