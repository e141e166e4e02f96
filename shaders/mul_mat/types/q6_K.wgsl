{#- q6_K: value = d * signed scale * (code - 32). Of 128 weights (half h = c / 4): low nibbles of
    chunks 0, 1 and high ones of chunks 2, 3 in quads 4 h + 2 (c & 1) and the next, upper two bits
    at 2 (c & 3) of quads 8 + 2 h and the next; quad 12 has sixteen scales. -#}
{$ from "mul_mat/fetch.wgsl" import quad, half with context $}
{$ set super = 8 $}
{$ macro block(s, n) $}
let d{{ s }} = unpack2x16float({{ half("d", n) }}).x;
let ss{{ s }} = {{ quad("q", n, "12u") }};
{$ endmacro $}
{$ macro chunk(s, n, c) $}
let sl{{ s }} = vec4<u32>(((({{ c }}) >> 1u) & 1u) * 4u);
let sh{{ s }} = vec4<u32>((({{ c }}) & 3u) * 2u);
let li{{ s }} = (({{ c }}) >> 2u) * 4u + (({{ c }}) & 1u) * 2u;
let hi{{ s }} = 8u + (({{ c }}) >> 2u) * 2u;
let wa{{ s }} = (({{ quad("q", n, "li" ~ s) }} >> sl{{ s }}) & vec4<u32>(0x0F0F0F0Fu))
    | ((({{ quad("q", n, "hi" ~ s) }} >> sh{{ s }}) & vec4<u32>(0x03030303u)) << vec4<u32>(4u));
let wb{{ s }} = (({{ quad("q", n, "li" ~ s ~ " + 1u") }} >> sl{{ s }}) & vec4<u32>(0x0F0F0F0Fu))
    | ((({{ quad("q", n, "hi" ~ s ~ " + 1u") }} >> sh{{ s }}) & vec4<u32>(0x03030303u)) << vec4<u32>(4u));
let sb{{ s }} = bitcast<i32>(pick(ss{{ s }}, ({{ c }}) >> 1u) >> ((({{ c }}) & 1u) * 16u));
let sc{{ s }} = d{{ s }} * vec2<f32>(vec2<i32>((sb{{ s }} << 24u) >> 24u, (sb{{ s }} << 16u) >> 24u));
let mn{{ s }} = sc{{ s }} * -32.0;
{$ endmacro $}
