{#- The weights of one type behind one set of macros, for every kernel of this folder.

    Weights are taken in chunks of 32 values along a row; `super` chunks make a block. Per row a
    kernel keeps a number (see fetch.wgsl) and a suffix `s` that tells rows apart in names:
    block(s, n)     once per block, n the block's number: defines what its chunks share
    chunk(s, n, c)  defines what `vec` needs of chunk c of the block; or, where a loop can share
                    loads, load(s, n, g) once per group g of `inner` chunks and turn(s, n, g, v) for
                    each of them: chunk number chunk_of(g, v)
    vec(s, j)       expression, vec4<f32>: values 4 j .. 4 j + 3 of the chunk
    tail(n, i)      plain types only, expression: values 4 i .. 4 i + 3 of the row that starts at n
    A file in types/ gives block, load, chunk (a turn of a group) and one of these: `vec`; byte codes
    `wa`, `wb` (sixteen codes each, one a byte), `sc` and `mn` (vec2: scale and offset of either
    half); or `values` (expression: four values before they are multiplied by `sc`). -#}
{$ set files = {"f16": "halves", "bf16": "halves"} $}
{$ set plain = w_type in ("f32", "f16", "bf16") $}
{$ import "mul_mat/types/" ~ files.get(w_type, w_type) ~ ".wgsl" as T with context $}
{$ import "mul_mat/fetch.wgsl" as F with context $}
{$ set super = T.super $}
{$ set inner = T.inner $}
{$ set unroll = inner <= 2 $}
{$ set has_codes = not plain and T.values is not defined $}
{#- numbers from one chunk (plain types) or block to the next -#}
{$ set step = (32 // T.quad_values if w_mode in ("quad", "texel") else 32) if plain else 1 $}
{$ macro block(s, n) $}{{ T.block(s, n) }}{$ endmacro $}
{$ macro load(s, n, g) $}{{ T.load(s, n, g) }}{$ endmacro $}
{$ macro turn(s, n, g, v) $}{{ T.chunk(s, n, g, v) }}{$ endmacro $}
{$ macro chunk_of(g, v) $}{$ if inner > 1 $}{{ T.chunk_of(g, v) }}{$ else $}{{ g }}{$ endif $}{$ endmacro $}
{$ macro chunk(s, n, c) $}
{$ if inner > 1 $}
let g{{ s }} = {{ T.group_of(c) }};
let v{{ s }} = {{ T.turn_of(c) }};
{{ T.load(s, n, "g" ~ s) }}
{{ T.chunk(s, n, "g" ~ s, "v" ~ s) }}
{$ else $}
{{ T.load(s, n, c) }}
{{ T.chunk(s, n, c, "0u") }}
{$ endif $}
{$ endmacro $}
{$ macro vec(s, j) $}
{$ if plain $}
{{ T.vec(s, j) }}
{$- elif T.values is defined -$}
{{ T.values(s, j) }} * sc{{ s }}.{{ "x" if j < 4 else "y" }}
{$- else -$}
bytes4({{ "wa" if j < 4 else "wb" }}{{ s }}.{{ "xyzw"[j % 4] }}) * sc{{ s }}.{{ "x" if j < 4 else "y" }} + mn{{ s }}.{{ "x" if j < 4 else "y" }}
{$- endif $}
{$ endmacro $}
{#- `vec` is codes * scale + offset; kernels that scale sums instead of weights use `codes`: an
    expression, vec4<f32>, the codes times 1, 256, 65536, 1, which saves shifts (with `has_codes`),
    or levels as they are. -#}
{$ macro codes(s, j) $}
{$ if has_codes $}
split4({{ "wa" if j < 4 else "wb" }}{{ s }}.{{ "xyzw"[j % 4] }})
{$- else -$}
{{ T.values(s, j) }}
{$- endif $}
{$ endmacro $}
{$ macro tail(n, i) $}{{ T.tail(n, i) }}{$ endmacro $}
{$ macro functions() $}
{{ F.functions() }}
{$ if T.functions is defined $}
{{ T.functions() }}
{$ endif $}
{$ if not plain $}
// The four bytes of a word. As signed numbers: processors lack a conversion of unsigned ones.
fn bytes4(w: u32) -> vec4<f32> {
    return vec4<f32>(vec4<i32>((vec4<u32>(w) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u)));
}
// The four bytes of a word, the second times 256, the third times 65536.
fn split4(w: u32) -> vec4<f32> {
    return vec4<f32>(vec4<i32>(vec4<u32>(w & 0xFFu, w & 0xFF00u, w & 0xFF0000u, w >> 24u)));
}
// Bits 0..3 of `bits` as bit 0 of each byte.
fn spread4(bits: u32) -> u32 {
    return ((bits & 15u) * 0x00204081u) & 0x01010101u;
}
// The 8-bit pair number i (0..7) of sixteen bytes, in the low or high half of a word: scales of
// chunk c are bytes 2 c and 2 c + 1, so i is c and the word c / 2.
fn pick(v: vec4<u32>, word: u32) -> u32 {
    return select(select(v.x, v.y, word == 1u), select(v.z, v.w, word == 3u), word > 1u);
}
{$ endif $}
{$ endmacro $}
