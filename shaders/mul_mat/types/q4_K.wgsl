{#- q4_K: value = d * scale * code - dmin * minimum. Quads 1..8 are codes: chunk c is nibble c & 1 of
    quads 1 + 2 (c / 2) and the next. -#}
{$ from "mul_mat/fetch.wgsl" import quad with context $}
{$ from "mul_mat/types/six_bits.wgsl" import head, scales $}
{$ set super = 8 $}
{$ macro block(s, n) $}
let k{{ s }} = {{ quad("q", n, "0u") }};
{{ head(s) }}
{$ endmacro $}
{$ macro chunk(s, n, c) $}
let sn{{ s }} = vec4<u32>((({{ c }}) & 1u) * 4u);
let wa{{ s }} = ({{ quad("q", n, "1u + ((" ~ c ~ ") >> 1u) * 2u") }} >> sn{{ s }}) & vec4<u32>(0x0F0F0F0Fu);
let wb{{ s }} = ({{ quad("q", n, "2u + ((" ~ c ~ ") >> 1u) * 2u") }} >> sn{{ s }}) & vec4<u32>(0x0F0F0F0Fu);
{{ scales(s, c) }}
{$ endmacro $}
