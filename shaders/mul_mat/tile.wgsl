{#- Matrix product for GPUs: a workgroup of 128 lanes makes a tile of 64 rows by 64 columns, 32 values
    of K at a time in f32 workgroup memory; a lane keeps 8 by 4 sums.

    Bindings: weights (weights.wgsl), x (x.wgsl), y array<f32>.
    Grid: groups of 64 rows, groups of 64 columns, matrices; see place.wgsl.
    Workgroup memory: 16384 bytes, what every WebGPU device has. Activations stay f32 throughout:
    values past 65504 would not survive f16. -#}
{$ import "mul_mat/weights.wgsl" as W with context $}
{$ import "mul_mat/x.wgsl" as X with context $}
{$ import "mul_mat/place.wgsl" as G with context $}
{$ include "include/grid.wgsl" $}
{{ decls }}
{{ W.functions() }}
{{ X.functions() }}
// four values of K of row or column i at [quad * 64 + i]
var<workgroup> tile_w: array<vec4<f32>, 512>;
var<workgroup> tile_x: array<vec4<f32>, 512>;

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
{{ G.place() }}
    let row0 = row_group * 64u;
    let col0 = col_group * 64u;
    // while loading, lanes 0..63 bring a row each and lanes 64..127 a column
    let mine = lane & 63u;
    let row = w_base + min(row0 + mine, P.m - 1u) * P.w_s1;
    let col = x_base + min(col0 + mine, P.n - 1u) * P.x_s1;
    let tr = lane & 7u;
    let tc = lane >> 3u;
$$ for c in range(4)
$$ for r in range(8)
    var acc{{ r }}_{{ c }} = 0.0;
$$ endfor
$$ endfor
    for (var chunk = 0u; chunk < P.chunks; chunk++) {
        if (lane < 64u) {
$$ if W.plain
$$ for j in range(8)
            {
                let i = chunk * 8u + {{ j }}u;
$$ if tail
                tile_w[{{ j * 64 }}u + mine] = select(vec4<f32>(0.0), {{ G.masked(W.tail("row", "i"), "i") }}, i < P.quads);
$$ else
                tile_w[{{ j * 64 }}u + mine] = {{ W.tail("row", "i") }};
$$ endif
            }
$$ endfor
$$ else
            let b = chunk / {{ W.super }}u;
            let s = chunk % {{ W.super }}u;
            let n = row + b;
            {{ W.block("", "n") }}
            {{ W.chunk("", "n", "s") }}
$$ for j in range(8)
            tile_w[{{ j * 64 }}u + mine] = {{ W.vec("", j) }};
$$ endfor
$$ endif
        } else {
$$ for j in range(8)
            {
                let i = chunk * 8u + {{ j }}u;
$$ if tail
                tile_x[{{ j * 64 }}u + mine] = select(vec4<f32>(0.0), {{ G.masked(X.vec("col", "i"), "i") }}, i < P.quads);
$$ else
                tile_x[{{ j * 64 }}u + mine] = {{ X.vec("col", "i") }};
$$ endif
            }
$$ endfor
        }
        workgroupBarrier();
        for (var j = 0u; j < 512u; j += 64u) {
$$ for r in range(8)
            let w{{ r }} = tile_w[j + tr + {{ r * 8 }}u];
$$ endfor
$$ for c in range(4)
            let v{{ c }} = tile_x[j + tc + {{ c * 16 }}u];
$$ for r in range(8)
            acc{{ r }}_{{ c }} += dot(w{{ r }}, v{{ c }});
$$ endfor
$$ endfor
        }
        workgroupBarrier();
    }
$$ for c in range(4)
    if (col0 + tc + {{ c * 16 }}u < P.n) {
        let out{{ c }} = y_base + (col0 + tc + {{ c * 16 }}u) * P.y_s1 + row0 + tr;
$$ for r in range(8)
        if (row0 + tr + {{ r * 8 }}u < P.m) { {{ y }}[out{{ c }} + {{ r * 8 }}u] = acc{{ r }}_{{ c }}; }
$$ endfor
    }
$$ endfor
}
