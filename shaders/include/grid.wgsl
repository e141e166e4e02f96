// Undoes the folding of a flat workgroup count (FOLD in backends/wgpu/builder.py): a grid of more
// than 65535 workgroups arrives as rows of 32768. The last row may be partly past the end: compare
// with your own count and return.
fn flat_group(wg: vec3<u32>) -> u32 {
    return wg.x + wg.y * 32768u;
}
