{# Coordinates of a row: leaves i1, i2, i3 (and `plane`) of row number `row`, from the parameters n1
   and n2, the rows of a plane and the planes of a stack. #}
{$ macro row_coords(row) $}
    let plane = ({{ row }}) / P.n1;
    let i1 = {{ row }} - plane * P.n1;
    let i3 = plane / P.n2;
    let i2 = plane - i3 * P.n2;
{$ endmacro $}
