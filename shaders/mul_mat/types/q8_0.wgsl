{#- q8_0: value = d * signed byte. Flipping the sign bit makes it d * (byte - 128), exactly. -#}
{$ from "mul_mat/fetch.wgsl" import quad, half with context $}
{$ set super, inner = 1, 1 $}
{$ macro block(s, n) $}{$ endmacro $}
{$ macro load(s, n, g) $}{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let wa{{ s }} = {{ quad("q", n, "0u") }} ^ vec4<u32>(0x80808080u);
let wb{{ s }} = {{ quad("q", n, "1u") }} ^ vec4<u32>(0x80808080u);
let sc{{ s }} = vec2<f32>(unpack2x16float({{ half("d", n) }}).x);
let mn{{ s }} = sc{{ s }} * -128.0;
{$ endmacro $}
