{#- q5_K: as q4_K with a fifth bit: bit c of the bytes of quads 1..2; codes in quads 3..10. -#}
{$ from "mul_mat/fetch.wgsl" import quad with context $}
{$ from "mul_mat/types/six_bits.wgsl" import head, scales $}
{$ set super = 8 $}
{$ macro block(s, n) $}
let k{{ s }} = {{ quad("q", n, "0u") }};
let ha{{ s }} = {{ quad("q", n, "1u") }};
let hb{{ s }} = {{ quad("q", n, "2u") }};
{{ head(s) }}
{$ endmacro $}
{$ macro chunk(s, n, c) $}
let sn{{ s }} = vec4<u32>((({{ c }}) & 1u) * 4u);
let wa{{ s }} = (({{ quad("q", n, "3u + ((" ~ c ~ ") >> 1u) * 2u") }} >> sn{{ s }}) & vec4<u32>(0x0F0F0F0Fu))
    | (((ha{{ s }} >> vec4<u32>({{ c }})) & vec4<u32>(0x01010101u)) << vec4<u32>(4u));
let wb{{ s }} = (({{ quad("q", n, "4u + ((" ~ c ~ ") >> 1u) * 2u") }} >> sn{{ s }}) & vec4<u32>(0x0F0F0F0Fu))
    | (((hb{{ s }} >> vec4<u32>({{ c }})) & vec4<u32>(0x01010101u)) << vec4<u32>(4u));
{{ scales(s, c) }}
{$ endmacro $}
