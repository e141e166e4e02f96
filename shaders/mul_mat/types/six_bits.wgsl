{#- q4_K and q5_K: quad 0 holds d, dmin and twelve bytes of 6-bit scales and minimums. -#}
{$ macro head(s) $}
let dm{{ s }} = unpack2x16float(k{{ s }}.x);
let sA{{ s }} = k{{ s }}.y & 0x3F3F3F3Fu;
let mA{{ s }} = k{{ s }}.z & 0x3F3F3F3Fu;
let sB{{ s }} = (k{{ s }}.w & 0x0F0F0F0Fu) | (((k{{ s }}.y >> 6u) & 0x03030303u) << 4u);
let mB{{ s }} = ((k{{ s }}.w >> 4u) & 0x0F0F0F0Fu) | (((k{{ s }}.z >> 6u) & 0x03030303u) << 4u);
{$ endmacro $}
{$ macro scales(s, g, v) $}
let sh{{ s }} = (({{ g }}) & 1u) * 16u + ({{ v }}) * 8u;
let sc{{ s }} = vec2<f32>(dm{{ s }}.x * f32((select(sB{{ s }}, sA{{ s }}, ({{ g }}) < 2u) >> sh{{ s }}) & 63u));
let mn{{ s }} = vec2<f32>(-dm{{ s }}.y * f32((select(mB{{ s }}, mA{{ s }}, ({{ g }}) < 2u) >> sh{{ s }}) & 63u));
{$ endmacro $}
