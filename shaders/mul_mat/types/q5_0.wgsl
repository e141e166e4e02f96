{#- q5_0: value = d * (code - 16); bit i of the word `h` is bit 4 of weight i. -#}
{$ from "mul_mat/fetch.wgsl" import quad, word, half with context $}
{$ from "mul_mat/types/fifth_bit.wgsl" import codes $}
{$ set super, inner = 1, 1 $}
{$ macro block(s, n) $}{$ endmacro $}
{$ macro load(s, n, g) $}{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let q{{ s }} = {{ quad("q", n, "0u") }};
let h{{ s }} = {{ word("h", n) }};
{{ codes(s, "h" ~ s) }}
let sc{{ s }} = vec2<f32>(unpack2x16float({{ half("d", n) }}).x);
let mn{{ s }} = sc{{ s }} * -16.0;
{$ endmacro $}
