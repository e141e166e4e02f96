{#- What a lane does with the sums of R consecutive rows of one column besides storing them, in quads
    of rows (R and P.m are multiples of 4). Macros only.

    Constants: fused   anything of the following
               scaled  x is what a norm takes in: sums are multiplied by 1 / sqrt(mean + eps), from
                       partial sums of squares behind the column in its texture
               glu     gate and up have weights of their own: `function` of x (gate) and y (up);
                       swapped: the first weights are those of up
               add     plus the quad of `res`
               rope    pairs of rows are turned (NORMAL mode): pos, table, ff as in rope.wgsl
               store   "y" f32 in `y`; "f16", "f32" in row `ids`[0] of `cache`
               stage   the result, times `next` if next_weight, goes to the texture `out` as well
               squares and the sum of its squares behind it, a texel a workgroup
    Lanes of a subgroup add up by themselves where a workgroup is one (`one_subgroup`). -#}
{$ macro functions() $}
{$ if glu $}
{$ set vtype = "vec4<f32>" $}
{$ include "include/math.wgsl" $}
fn gated(x: V, y: V) -> V {
    return {{ function }};
}
{$ endif $}
{$ if rope $}
{$ include "rope/angles.wgsl" $}
// Two neighbouring values of pair k turned.
fn turned(v: vec2<f32>, k: u32, p: u32) -> vec2<f32> {
    if (k >= P.n_pairs) { return v; }
    let entry = {{ table }}[P.off_table + k];
{$ if has_factors $}
    let f = split(bitcast<f32>(entry.w) / {{ ff }}[P.off_ff + k]);
    let turn = circle(turns_of(f.x, f.y, p)) * P.magnitude;
{$ else $}
    let turn = circle(turns_of(entry.x, entry.y, p)) * P.magnitude;
{$ endif $}
    return vec2<f32>(v.x * turn.x - v.y * turn.y, v.x * turn.y + v.y * turn.x);
}
{$ endif $}
{$ if store == "f16" $}
{$ include "include/half.wgsl" $}
{$ endif $}
{$ if squares and not one_subgroup $}
{$ set W = WG $}
{$ from "include/reduce.wgsl" import reduction with context $}
{{ reduction("sum_of_lanes", "a + b") }}
{$ endif $}
{$ endmacro $}

{#- The factor of the norm before the product. -#}
{$ macro factor() $}
    var squares_of_x = 0.0;
{$ if one_subgroup $}
    for (var i = lane; i < P.x_parts; i += {{ WG }}u) {
        squares_of_x += textureLoad({{ x }}, texel(P.x_at + i)).x;
    }
    squares_of_x = subgroupAdd(squares_of_x);
{$ else $}
    for (var i = 0u; i < P.x_parts; i++) {
        squares_of_x += textureLoad({{ x }}, texel(P.x_at + i)).x;
    }
{$ endif $}
    let x_factor = inverseSqrt(squares_of_x * P.x_inv_n + P.x_eps);
{$ endmacro $}

{$ macro quad(acc, v) $}
vec4<f32>({$ for j in range(4) $}{{ acc }}{{ 4 * v + j }}_0{{ ", " if j < 3 }}{$ endfor $}){{ " * x_factor" if scaled }}
{$- endmacro $}

{$ macro finish() $}
{$ if scaled $}
{{ factor() }}
{$ endif $}
{$ if rope $}
    let position = {{ pos }}[P.off_pos];
{$ endif $}
{$ if store in ("f16", "f32") $}
    let cell = {{ ids }}[P.off_ids];
{$ endif $}
{$ if squares $}
    var squares = 0.0;
{$ endif $}
{$ for v in range(R // 4) $}
    if (row0 + {{ 4 * v }}u < P.m) {
        let row = row0 + {{ 4 * v }}u;
        var value = {{ quad("acc", v) }};
{$ if glu $}
        value = gated({$ if swapped $}{{ quad("up", v) }}, value{$ else $}value, {{ quad("up", v) }}{$ endif $});
{$ endif $}
{$ if add $}
        value += {{ res }}[P.off_res + row / 4u];
{$ endif $}
{$ if rope $}
        let pair = (row % P.head_dim) / 2u;
        value = vec4<f32>(turned(value.xy, pair, position), turned(value.zw, pair + 1u, position));
{$ endif $}
{$ if store == "y" $}
        {{ y }}[P.off_y + row / 4u] = value;
{$ elif store == "f32" $}
        if (cell < P.cells) { {{ cache }}[P.off_cache + cell * P.cell_size + row / 4u] = value; }
{$ else $}
        if (cell < P.cells) {
            {{ cache }}[P.off_cache + cell * P.cell_size + row / 4u] = vec2<u32>(
                f16_bits(value.x) | (f16_bits(value.y) << 16u),
                f16_bits(value.z) | (f16_bits(value.w) << 16u),
            );
        }
{$ endif $}
{$ if squares $}
        squares += dot(value, value);
{$ endif $}
{$ if stage $}
        textureStore({{ out }}, texel(row / 4u), value{$ if next_weight $} * {{ next }}[P.off_next + row / 4u]{$ endif $});
{$ endif $}
    }
{$ endfor $}
{$ if squares $}
    let all_squares = {$ if one_subgroup $}subgroupAdd(squares){$ else $}sum_of_lanes(lane, squares){$ endif $};
    if (lane == 0u) {
        textureStore({{ out }}, texel(P.m / 4u + row_group), vec4<f32>(all_squares));
    }
{$ endif $}
{$ endmacro $}
