{#- How raw weight bytes are read. Macros only.

Constants: w_mode  "packed"  regions of a WEIGHTS buffer, one operand `w_<field>` per region;
                   "texel"   the same regions in textures;
                   "native"  blocks of the file's layout anywhere in memory: operand `w`, array<u32>,
                             first block at byte P.w_byte;
                   "quad"    plain types in whole vec4<u32>: operand `w`; a number n counts quads;
                   "elem"    plain types at any element: operand `w`, array<u32>; n counts elements
                             from element P.w_byte / size on.
           w_fields (name, elem, begin, nbytes, stride) of each region, see backends/wgpu/packing.py
           w_block  bytes of one block in the file
           w_prefix what names of operands and parameters begin with, where a kernel has two sets
`n` is a block number (WGSL expression), `i` the number of the 16-byte unit in the block's field.
-#}
{$ set w_prefix = w_prefix if w_prefix is defined else "w" $}
{$ set operands = {"q": w_q, "d": w_d, "h": w_h} if w_mode in ("packed", "texel") else {} $}
{$ macro begin(name) $}{$ for f in w_fields if f[0] == name $}{{ f[2] }}u{$ endfor $}{$ endmacro $}
{$ macro units(name, bytes) $}{$ for f in w_fields if f[0] == name $}{{ f[4] // bytes }}u{$ endfor $}{$ endmacro $}
{$ macro elem(name) $}{$ for f in w_fields if f[0] == name $}{{ f[1] }}{$ endfor $}{$ endmacro $}
{$ macro byte_of(name, n) $}(P.w_byte + ({{ n }}) * {{ w_block }}u + {{ begin(name) }}){$ endmacro $}

{#- vec4<u32>: 16 bytes of a field of vec4s -#}
{$ macro quad(name, n, i) $}
{$ if w_mode == "packed" $}
{{ operands[name] }}[P.off_{{ w_prefix }}_{{ name }} + ({{ n }}) * {{ units(name, 16) }} + {{ i }}]
{$- elif w_mode == "texel" -$}
textureLoad({{ operands[name] }}, texel(({{ n }}) * {{ units(name, 16) }} + {{ i }}))
{$- else -$}
quad_at({{ byte_of(name, n) }} + ({{ i }}) * 16u)
{$- endif $}
{$ endmacro $}

{#- u32: the only word of a field -#}
{$ macro word(name, n) $}
{$ if w_mode == "packed" $}
{{ operands[name] }}[P.off_{{ w_prefix }}_{{ name }} + {{ n }}]
{$- elif w_mode == "texel" -$}
textureLoad({{ operands[name] }}, texel({{ n }})).x
{$- else -$}
word_at({{ byte_of(name, n) }})
{$- endif $}
{$ endmacro $}

{#- u32: word number i of a field of several -#}
{$ macro words(name, n, i) $}
{$ if w_mode == "packed" $}
{{ operands[name] }}[P.off_{{ w_prefix }}_{{ name }} + ({{ n }}) * {{ units(name, 4) }} + {{ i }}]
{$- elif w_mode == "texel" -$}
textureLoad({{ operands[name] }}, texel(({{ n }}) * {{ units(name, 4) }} + {{ i }})).x
{$- else -$}
word_at({{ byte_of(name, n) }} + ({{ i }}) * 4u)
{$- endif $}
{$ endmacro $}

{#- u32 whose low 16 bits are a field of two bytes -#}
{$ macro half(name, n) $}
{$ if w_mode == "packed" $}
({{ operands[name] }}[P.off_{{ w_prefix }}_{{ name }} + (({{ n }}) >> 1u)] >> ((({{ n }}) & 1u) * 16u))
{$- elif w_mode == "texel" -$}
(textureLoad({{ operands[name] }}, texel(({{ n }}) >> 1u)).x >> ((({{ n }}) & 1u) * 16u))
{$- else -$}
word_at({{ byte_of(name, n) }})
{$- endif $}
{$ endmacro $}

{#- u32 whose low 8 bits are a field of one byte -#}
{$ macro byte(name, n) $}
{$ if w_mode == "packed" $}
({{ operands[name] }}[P.off_{{ w_prefix }}_{{ name }} + (({{ n }}) >> 2u)] >> ((({{ n }}) & 3u) * 8u))
{$- elif w_mode == "texel" -$}
(textureLoad({{ operands[name] }}, texel(({{ n }}) >> 2u)).x >> ((({{ n }}) & 3u) * 8u))
{$- else -$}
word_at({{ byte_of(name, n) }})
{$- endif $}
{$ endmacro $}

{#- Functions the macros above call. -#}
{$ macro functions() $}
{$ if w_mode == "texel" or (x_mode is defined and x_mode == "texel") or (stage is defined and stage) $}
{$ include "include/texel.wgsl" $}
{$ endif $}
{$ if w_mode in ("native", "elem") $}
// Four bytes from byte `at` of the weights on, whatever its alignment.
fn word_at(at: u32) -> u32 {
    let i = P.off_w + (at >> 2u);
    let shift = (at & 3u) * 8u;
    // in two steps, since a shift by 32 is none
    return ({{ w }}[i] >> shift) | (({{ w }}[i + 1u] << (31u - shift)) << 1u);
}
fn quad_at(at: u32) -> vec4<u32> {
    return vec4<u32>(word_at(at), word_at(at + 4u), word_at(at + 8u), word_at(at + 12u));
}
{$ endif $}
{$ endmacro $}
