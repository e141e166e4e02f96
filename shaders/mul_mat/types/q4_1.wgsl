{#- q4_1: value = d * code + m; low nibbles are weights 0..15, high ones 16..31. -#}
{$ from "mul_mat/fetch.wgsl" import quad, word with context $}
{$ set super = 1 $}
{$ macro block(s, n) $}{$ endmacro $}
{$ macro chunk(s, n, c) $}
let q{{ s }} = {{ quad("q", n, "0u") }};
let wa{{ s }} = q{{ s }} & vec4<u32>(0x0F0F0F0Fu);
let wb{{ s }} = (q{{ s }} >> vec4<u32>(4u)) & vec4<u32>(0x0F0F0F0Fu);
let dm{{ s }} = unpack2x16float({{ word("d", n) }});
let sc{{ s }} = dm{{ s }}.xx;
let mn{{ s }} = dm{{ s }}.yy;
{$ endmacro $}
