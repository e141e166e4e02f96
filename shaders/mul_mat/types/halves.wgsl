{#- f16, read through unpack2x16float, and bf16, the upper half of an f32. In modes "quad" and
    "texel" a number n counts eight values, in mode "elem" one, from an even or odd place. -#}
{$ set super, inner = 1, 1 $}
{$ set quad_values = 8 $}
{#- eight values -#}
{$ macro quad(n) $}
{$ if w_mode == "texel" $}
textureLoad({{ w_q }}, texel({{ n }}))
{$- else -$}
{{ w }}[P.off_w + {{ n }}]
{$- endif $}
{$ endmacro $}
{$ set quads = w_mode in ("quad", "texel") $}
{$ macro block(s, n) $}{$ endmacro $}
{$ macro load(s, n, g) $}{$ endmacro $}
{$ macro chunk(s, n, g, v) $}
{$ if quads $}
{$ for i in range(4) $}
let q{{ i }}_{{ s }} = {{ quad(n ~ " + " ~ i ~ "u") }};
{$ endfor $}
{$ else $}
let wn{{ s }} = {{ n }};
{$ endif $}
{$ endmacro $}
{$ macro vec(s, j) $}
{$ if quads $}
halves(q{{ j // 2 }}_{{ s }}.{{ "zw" if j % 2 else "xy" }})
{$- else -$}
halves_at(wn{{ s }} + {{ j * 4 }}u)
{$- endif $}
{$ endmacro $}
{$ macro tail(n, i) $}
{$ if quads $}
halves_of({{ quad(n ~ " + ((" ~ i ~ ") >> 1u)") }}, {{ i }})
{$- else -$}
halves_at(({{ n }}) + ({{ i }}) * 4u)
{$- endif $}
{$ endmacro $}
{$ macro functions() $}
fn halves(v: vec2<u32>) -> vec4<f32> {
{$ if w_type == "bf16" $}
    return bitcast<vec4<f32>>(vec4<u32>(v.x << 16u, v.x & 0xFFFF0000u, v.y << 16u, v.y & 0xFFFF0000u));
{$ else $}
    return vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y));
{$ endif $}
}
{$ if quads $}
fn halves_of(q: vec4<u32>, i: u32) -> vec4<f32> {
    return halves(select(q.xy, q.zw, (i & 1u) == 1u));
}
{$ else $}
fn halves_at(n: u32) -> vec4<f32> {
    let at = P.w_byte + n * 2u;
    return halves(vec2<u32>(word_at(at), word_at(at + 4u)));
}
{$ endif $}
{$ endmacro $}
