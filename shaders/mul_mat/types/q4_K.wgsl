{#- q4_K: value = d * scale * code - dmin * minimum. Quads 1..8 are codes: turn v of group g is
    nibble v of quads 1 + 2 g and the next. -#}
{$ from "mul_mat/fetch.wgsl" import quad with context $}
{$ from "mul_mat/types/six_bits.wgsl" import head, scales $}
{$ set super, inner = 8, 2 $}
{$ macro chunk_of(g, v) $}({{ g }}) * 2u + {{ v }}{$ endmacro $}
{$ macro group_of(c) $}(({{ c }}) >> 1u){$ endmacro $}
{$ macro turn_of(c) $}(({{ c }}) & 1u){$ endmacro $}
{$ macro block(s, n) $}
let k{{ s }} = {{ quad("q", n, "0u") }};
{{ head(s) }}
{$ endmacro $}
{$ macro load(s, n, g) $}
let qa{{ s }} = {{ quad("q", n, "1u + (" ~ g ~ ") * 2u") }};
let qb{{ s }} = {{ quad("q", n, "2u + (" ~ g ~ ") * 2u") }};
{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let sn{{ s }} = vec4<u32>(({{ v }}) * 4u);
let wa{{ s }} = (qa{{ s }} >> sn{{ s }}) & vec4<u32>(0x0F0F0F0Fu);
let wb{{ s }} = (qb{{ s }} >> sn{{ s }}) & vec4<u32>(0x0F0F0F0Fu);
{{ scales(s, g, v) }}
{$ endmacro $}
