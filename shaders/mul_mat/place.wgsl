{#- Which part of the product a workgroup makes, and where its operands start.

    Grid: P.groups workgroups, folded; row group fastest, then column group, then matrix. Defines
    row_group, col_group, and the numbers w_base, x_base, y_base of the matrix' first row, column and result.
    With `by_id` (MUL_MAT_ID) a matrix is one (slot, token) pair and `ids` names its weights; only
    experts P.expert0 .. P.expert1 - 1 are bound, others are left to the dispatch that binds them. -#}
{$ macro place() $}
    let group = flat_group(wg);
    if (group >= P.groups) { return; }
    let row_group = group % P.row_groups;
    let others = group / P.row_groups;
    let col_group = others % P.col_groups;
    let matrix = others / P.col_groups;
    let i2 = matrix % P.ne2;
    let i3 = matrix / P.ne2;
{$ if by_id $}
    let expert = {{ ids }}[P.off_ids + i2 + i3 * P.ids_s1];
    if (expert < P.expert0 || expert >= P.expert1) { return; }
    let w_base = P.w_off + (expert - P.expert0) * P.w_s2;
    let x_base = (i2 % P.ratio2) * P.x_s2 + i3 * P.x_s3;
{$ else $}
    let w_base = P.w_off + (i2 / P.ratio2) * P.w_s2 + (i3 / P.ratio3) * P.w_s3;
    let x_base = i2 * P.x_s2 + i3 * P.x_s3;
{$ endif $}
{$ if not fused $}
    let y_base = P.off_y + i2 * P.y_s2 + i3 * P.y_s3;
{$ endif $}
{$ endmacro $}
{#- v with the components past value P.k of the row made 0; i numbers four values -#}
{$ macro masked(v, i) $}
{$ if tail == "ragged" $}
select(vec4<f32>(0.0), {{ v }}, vec4<u32>(0u, 1u, 2u, 3u) + vec4<u32>(({{ i }}) * 4u) < vec4<u32>(P.k))
{$- else -$}
{{ v }}
{$- endif $}
{$ endmacro $}
