{#- q5_0 and q5_1: nibbles of q plus bit i of word `h` for weight i -> codes wa, wb. -#}
{$ macro codes(s, h) $}
let wa{{ s }} = (q{{ s }} & vec4<u32>(0x0F0F0F0Fu)) | (vec4<u32>(
    spread4({{ h }}), spread4({{ h }} >> 4u), spread4({{ h }} >> 8u), spread4({{ h }} >> 12u)) << vec4<u32>(4u));
let wb{{ s }} = ((q{{ s }} >> vec4<u32>(4u)) & vec4<u32>(0x0F0F0F0Fu)) | (vec4<u32>(
    spread4({{ h }} >> 16u), spread4({{ h }} >> 20u), spread4({{ h }} >> 24u), spread4({{ h }} >> 28u)) << vec4<u32>(4u));
{$ endmacro $}
