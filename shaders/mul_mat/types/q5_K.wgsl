{#- q5_K: as q4_K with a fifth bit: bit c of the bytes of quads 1..2; codes in quads 3..10. -#}
{$ from "mul_mat/fetch.wgsl" import quad with context $}
{$ from "mul_mat/types/six_bits.wgsl" import head, scales $}
{$ set super, inner = 8, 2 $}
{$ macro chunk_of(g, v) $}({{ g }}) * 2u + {{ v }}{$ endmacro $}
{$ macro group_of(c) $}(({{ c }}) >> 1u){$ endmacro $}
{$ macro turn_of(c) $}(({{ c }}) & 1u){$ endmacro $}
{$ macro block(s, n) $}
let k{{ s }} = {{ quad("q", n, "0u") }};
let ha{{ s }} = {{ quad("q", n, "1u") }};
let hb{{ s }} = {{ quad("q", n, "2u") }};
{{ head(s) }}
{$ endmacro $}
{$ macro load(s, n, g) $}
let qa{{ s }} = {{ quad("q", n, "3u + (" ~ g ~ ") * 2u") }};
let qb{{ s }} = {{ quad("q", n, "4u + (" ~ g ~ ") * 2u") }};
let ga{{ s }} = ha{{ s }} >> vec4<u32>(({{ g }}) * 2u);
let gb{{ s }} = hb{{ s }} >> vec4<u32>(({{ g }}) * 2u);
{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let sn{{ s }} = vec4<u32>(({{ v }}) * 4u);
let up{{ s }} = vec4<u32>(4u - ({{ v }}));
let wa{{ s }} = ((qa{{ s }} >> sn{{ s }}) & vec4<u32>(0x0F0F0F0Fu)) | ((ga{{ s }} << up{{ s }}) & vec4<u32>(0x10101010u));
let wb{{ s }} = ((qb{{ s }} >> sn{{ s }}) & vec4<u32>(0x0F0F0F0Fu)) | ((gb{{ s }} << up{{ s }}) & vec4<u32>(0x10101010u));
{{ scales(s, g, v) }}
{$ endmacro $}
