{#- iq4_xs: value = d * (scale - 32) * level. `d` holds d and, above it, the upper two bits of eight
    scales; `h` their lower four. Chunk c is quad c, low nibbles before high ones. -#}
{$ from "mul_mat/fetch.wgsl" import quad, word with context $}
{$ from "mul_mat/types/levels.wgsl" import iq4, iq4_values $}
{$ set super, inner = 8, 1 $}
{$ macro block(s, n) $}
let dh{{ s }} = {{ word("d", n) }};
let dl{{ s }} = {{ word("h", n) }};
{$ endmacro $}
{$ macro load(s, n, g) $}{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
let q{{ s }} = {{ quad("q", n, g) }};
let st{{ s }} = ((dl{{ s }} >> (({{ g }}) * 4u)) & 15u) | (((dh{{ s }} >> (16u + ({{ g }}) * 2u)) & 3u) << 4u);
let sc{{ s }} = vec2<f32>(unpack2x16float(dh{{ s }}).x * (f32(st{{ s }}) - 32.0));
{$ endmacro $}
{$ macro values(s, j) $}{{ iq4_values(s, j) }}{$ endmacro $}
{$ macro functions() $}{{ iq4() }}{$ endmacro $}
