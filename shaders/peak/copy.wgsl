// dst = src, 16 bytes a lane and step: what the memory of an adapter can move.
//
// Bindings: 0 src, 1 dst: vec4<u32>. Grid: groups of W lanes, each lane takes STEPS values that lie
// a group apart. Limits: at most 65535 groups.
@group(0) @binding(0) var<storage, read> src: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> dst: array<vec4<u32>>;

@compute @workgroup_size({{ W }})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let first = wg.x * {{ W * STEPS }}u + lane;
    for (var i = 0u; i < {{ STEPS }}u; i += 1u) {
        dst[first + i * {{ W }}u] = src[first + i * {{ W }}u];
    }
}
