{#- q5_1: value = d * code + m; bit i of the word `h` is bit 4 of weight i. -#}
{$ from "mul_mat/fetch.wgsl" import quad, word with context $}
{$ from "mul_mat/types/fifth_bit.wgsl" import codes $}
{$ set super, inner = 1, 1 $}
{$ macro block(s, n) $}{$ endmacro $}
{$ macro load(s, n, g) $}{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let q{{ s }} = {{ quad("q", n, "0u") }};
let h{{ s }} = {{ word("h", n) }};
{{ codes(s, "h" ~ s) }}
let dm{{ s }} = unpack2x16float({{ word("d", n) }});
let sc{{ s }} = dm{{ s }}.xx;
let mn{{ s }} = dm{{ s }}.yy;
{$ endmacro $}
