// The sums of conv.wgsl and transposed.wgsl of x and w in textures, as stage.wgsl leaves them: for
// drivers that read textures faster than buffers.
//
// Bindings: x, w (storage textures), dst (f32, or 16-bit floats in u32 words).
// Params: kx, ky, kz kernel sizes, nx, ny, nz sizes of x; sx .., px .., dx .. or, transposed, stride
// and stride_y; quads (texels a place), n_out; ox, oy, oz, n_at (places, batch included); dst_s0 ..
// dst_s2, dst_so, dst_sn in elements; chunks (workgroups for n_at places).
// Grid: one lane per place and R output channels, chunks * ceil(n_out / R) workgroups, flat.
// Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ include "include/half.wgsl" $}
{$ include "include/texel.wgsl" $}
{$ from "include/scalar.wgsl" import writer $}
{{ writer("dst", dst, dst_type, "i0", store) }}
{$ macro add(place, tap) $}
    let xs = ({{ place }}) * P.quads;
    let ws = ({{ tap }}) * P.quads;
    for (var q = 0u; q < P.quads; q++) {
        let v = textureLoad({{ x }}, texel(xs + q));
$$ for r in range(R)
        y{{ r }} += dot(v, textureLoad({{ w }}, texel(ws + q + w{{ r }})));
$$ endfor
    }
{$ endmacro $}
$$ if transposed

// The first place whose window of k reaches place i of the result.
fn first_of(i: u32, k: u32, stride: u32) -> u32 {
    return select(0u, (i - k) / stride + 1u, i >= k);
}
$$ endif

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let group = flat_group(wg);
    let o = group / P.chunks * {{ R }}u;
    let at = group % P.chunks * {{ wg }}u + lane;
    if (at >= P.n_at || o >= P.n_out) { return; }
    let line = at / P.ox;
    let plane = line / P.oy;
    let n = plane / P.oz;
    let ox = at - line * P.ox;
    let oy = line - plane * P.oy;
    let oz = plane - n * P.oz;
    let kernel = P.kx * P.ky * P.kz * P.quads;
$$ for r in range(R)
    let w{{ r }} = min(o + {{ r }}u, P.n_out - 1u) * kernel;
    var y{{ r }} = 0.0;
$$ endfor
$$ if transposed
    let l1 = min(ox / P.stride + 1u, P.nx);
    let m1 = min(oy / P.stride_y + 1u, P.ny);
    for (var m = first_of(oy, P.ky, P.stride_y); m < m1; m++) {
        for (var l = first_of(ox, P.kx, P.stride); l < l1; l++) {
            {{ add("(n * P.ny + m) * P.nx + l", "(oy - m * P.stride_y) * P.kx + ox - l * P.stride") }}
        }
    }
$$ else
    for (var kz = 0u; kz < P.kz; kz++) {
        // places left of x wrap round to large numbers
        let iz = oz * P.sz + kz * P.dz - P.pz;
        if (iz >= P.nz) { continue; }
        for (var ky = 0u; ky < P.ky; ky++) {
            let iy = oy * P.sy + ky * P.dy - P.py;
            if (iy >= P.ny) { continue; }
            for (var kx = 0u; kx < P.kx; kx++) {
                let ix = ox * P.sx + kx * P.dx - P.px;
                if (ix >= P.nx) { continue; }
                {{ add("((n * P.nz + iz) * P.ny + iy) * P.nx + ix", "(kz * P.ky + ky) * P.kx + kx") }}
            }
        }
    }
$$ endif
    let to = ox * P.dst_s0 + oy * P.dst_s1 + oz * P.dst_s2 + n * P.dst_sn + o * P.dst_so;
    store_dst(to, 0u, 0u, 0u, y0);
$$ for r in range(1, R)
    if (o + {{ r }}u < P.n_out) { store_dst(to + {{ r }}u * P.dst_so, 0u, 0u, 0u, y{{ r }}); }
$$ endfor
}
