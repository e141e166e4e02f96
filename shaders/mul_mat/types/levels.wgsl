{#- Types whose 4-bit codes number a level. -#}
{#- iq4: functions from a word to the levels of its four low or four high nibbles: -127 -104 -83 -65
    -49 -35 -22 -10 1 13 25 38 53 69 89 113. A polynomial of degree 4 that starts at -127 misses them
    by 0.44 at most; its coefficients take in where the nibble stands, which saves shifts. (Adding
    and taking away 1.5 * 2^23 instead of `round` does not round: drivers join the constants.) -#}
{$ set iq4_power = [-127, 24.500599, -1.4385638, 0.03627325, 0.0014480185] $}
{$ macro iq4_function(name, nibbles, at) $}
fn {{ name }}(w: u32) -> vec4<f32> {
    let u = vec4<f32>(vec4<i32>({{ nibbles }}));
    var level = vec4<f32>({$ for s in at $}{{ iq4_power[4] / s ** 4 }}{{ ", " if not loop.last }}{$ endfor $});
{$ for i in (3, 2, 1) $}
    level = level * u + vec4<f32>({$ for s in at $}{{ iq4_power[i] / s ** i }}{{ ", " if not loop.last }}{$ endfor $});
{$ endfor $}
    return round(level * u + {{ iq4_power[0] }});
}
{$ endmacro $}
{$ macro iq4() $}
{{ iq4_function("iq4_low", "vec4<u32>(w) & vec4<u32>(0xFu, 0xF00u, 0xF0000u, 0xF000000u)", (1, 256, 65536, 16777216)) }}
{{ iq4_function("iq4_high", "vec4<u32>(w & 0xF0u, w & 0xF000u, w & 0xF00000u, w >> 28u)", (16, 4096, 1048576, 1)) }}
{$ endmacro $}
{$ macro iq4_values(s, j) $}{{ "iq4_low" if j < 4 else "iq4_high" }}(q{{ s }}.{{ "xyzw"[j % 4] }}){$ endmacro $}

{#- fp4: a function from codes, one a byte, to 12 + levels 0 1 2 3 4 6 8 12 (negative from code 8
    on), four bytes at a time: t + (t & 3 if t > 3) + (2 if t = 7) for t = code & 7. -#}
{$ macro fp4() $}
fn fp4_codes(w: vec4<u32>) -> vec4<u32> {
    let ones = vec4<u32>(0x01010101u);
    let big = (w >> vec4<u32>(2u)) & ones;
    let seven = w & (w >> vec4<u32>(1u)) & big;
    let size = (w & vec4<u32>(0x07070707u)) + (w & (big | (big << vec4<u32>(1u)))) + (seven << vec4<u32>(1u));
    let minus = (w >> vec4<u32>(3u)) & ones;
    let mask = (minus << vec4<u32>(8u)) - minus;
    return vec4<u32>(0x0C0C0C0Cu) + size - ((size & mask) << vec4<u32>(1u));
}
{$ endmacro $}
