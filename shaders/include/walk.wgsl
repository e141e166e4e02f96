{# Coordinates of a lane's unit, from the constants of ops/_walk.py: n_dims, flat, wg.
   Needs grid.wgsl, and `wg`, `lane` as built-in inputs. Leaves i0 (in units), i1, i2, i3. #}
{$ macro coords() $}
$$ if flat
    let unit_id = flat_group(wg) * {{ wg }}u + lane;
$$ if n_dims == 1
    if (unit_id >= P.n0) { return; }
    let i0 = unit_id; let i1 = 0u; let i2 = 0u; let i3 = 0u;
$$ else
    if (unit_id >= P.n_units) { return; }
    let walk_row = unit_id / P.n0;
    let i0 = unit_id - walk_row * P.n0;
$$ if n_dims == 2
    let i1 = walk_row; let i2 = 0u; let i3 = 0u;
$$ elif n_dims == 3
    let i2 = walk_row / P.n1; let i1 = walk_row - i2 * P.n1; let i3 = 0u;
$$ else
    let walk_plane = walk_row / P.n1; let i1 = walk_row - walk_plane * P.n1;
    let i3 = walk_plane / P.n2; let i2 = walk_plane - i3 * P.n2;
$$ endif
$$ endif
$$ else
    let i0 = wg.x * {{ wg }}u + lane;
    if (i0 >= P.n0) { return; }
    let i1 = wg.y;
$$ if n_dims == 4
    let i3 = wg.z / P.n2; let i2 = wg.z - i3 * P.n2;
$$ else
    let i2 = wg.z; let i3 = 0u;
$$ endif
$$ endif
{$ endmacro $}
