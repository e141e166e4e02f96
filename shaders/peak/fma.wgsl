// Chains of multiply-adds in registers: what the units of an adapter can compute. Written as a
// product and a sum, which compilers fuse where that is faster; `fma` some emulate.
//
// Bindings: 0 src: u32 (count, then the bits of two factors), 1 dst: f32, one value a lane. Grid: groups
// of W lanes. Each lane does count * CHAINS * 8 operations, on CHAINS independent vec4.
@group(0) @binding(0) var<storage, read> src: array<u32>;
@group(0) @binding(1) var<storage, read_write> dst: array<f32>;

@compute @workgroup_size({{ W }})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let count = src[0];
    let a = vec4<f32>(bitcast<f32>(src[1]));
    let b = vec4<f32>(bitcast<f32>(src[2]));
$$ for c in range(CHAINS)
    var x{{ c }} = vec4<f32>(f32(lane + {{ c }}u));
$$ endfor
    for (var i = 0u; i < count; i += 1u) {
$$ for c in range(CHAINS)
        x{{ c }} = x{{ c }} * a + b;
$$ endfor
    }
    let all = {$ for c in range(CHAINS) $}{{ " + " if c }}x{{ c }}{$ endfor $};
    dst[wg.x * {{ W }}u + lane] = all.x + all.y + all.z + all.w;
}
