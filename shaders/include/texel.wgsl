// Where element i of an array lies in a texture of WIDTH (backends/wgpu/texels.py) texels a row.
fn texel(i: u32) -> vec2<u32> {
    return vec2<u32>(i & 4095u, i >> 12u);
}
