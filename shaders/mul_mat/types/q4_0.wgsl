{#- q4_0: value = d * (code - 8); low nibbles are weights 0..15, high ones 16..31. -#}
{$ from "mul_mat/fetch.wgsl" import quad, half with context $}
{$ set super, inner = 1, 1 $}
{$ macro block(s, n) $}{$ endmacro $}
{$ macro load(s, n, g) $}{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let q{{ s }} = {{ quad("q", n, "0u") }};
let wa{{ s }} = q{{ s }} & vec4<u32>(0x0F0F0F0Fu);
let wb{{ s }} = (q{{ s }} >> vec4<u32>(4u)) & vec4<u32>(0x0F0F0F0Fu);
let sc{{ s }} = vec2<f32>(unpack2x16float({{ half("d", n) }}).x);
let mn{{ s }} = sc{{ s }} * -8.0;
{$ endmacro $}
