{#- q5_1: value = d * code + m; the pair `d` holds (d | m << 16, fifth bits). -#}
{$ from "mul_mat/fetch.wgsl" import quad, pair with context $}
{$ from "mul_mat/types/fifth_bit.wgsl" import codes $}
{$ set super, inner = 1, 1 $}
{$ macro block(s, n) $}{$ endmacro $}
{$ macro load(s, n, g) $}{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let q{{ s }} = {{ quad("q", n, "0u") }};
let p{{ s }} = {{ pair("d", n) }};
{{ codes(s, "p" ~ s ~ ".y") }}
let dm{{ s }} = unpack2x16float(p{{ s }}.x);
let sc{{ s }} = dm{{ s }}.xx;
let mn{{ s }} = dm{{ s }}.yy;
{$ endmacro $}
