{#- q4_1: value = d * code + m; low nibbles are weights 0..15, high ones 16..31. -#}
{$ from "mul_mat/fetch.wgsl" import quad, word with context $}
{$ set super, inner = 1, 1 $}
{$ macro block(s, n) $}{$ endmacro $}
{$ macro load(s, n, g) $}{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let q{{ s }} = {{ quad("q", n, "0u") }};
let wa{{ s }} = q{{ s }} & vec4<u32>(0x0F0F0F0Fu);
let wb{{ s }} = (q{{ s }} >> vec4<u32>(4u)) & vec4<u32>(0x0F0F0F0Fu);
let dm{{ s }} = unpack2x16float({{ word("d", n) }});
let sc{{ s }} = dm{{ s }}.xx;
let mn{{ s }} = dm{{ s }}.yy;
{$ endmacro $}
