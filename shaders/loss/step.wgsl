// One optimiser step on weights w with gradient g, in place; settings s:
//   adamw  s = alpha, beta1, beta2, eps, decay, 1/(1 - beta1^t), 1/(1 - beta2^t)
//          m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//          w = w (1 - alpha decay) - alpha (m s5) / (sqrt(v s6) + eps)     (arXiv:1711.05101)
//   sgd    s = alpha, decay;  w = w (1 - alpha decay) - alpha g
//
// Bindings: w, g, settings, and with adamw m, v (f32). Params: the walk's.
// Grid: one lane per value. Limits: none.
{{ decls }}
{$ include "include/grid.wgsl" $}
{$ from "include/walk.wgsl" import coords with context $}

fn setting(i: u32) -> f32 {
    return {{ settings }}[P.off_settings + i];
}

@compute @workgroup_size({{ wg }})
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
{{ coords() }}
    let at = P.off_w + {{ at_w }};
    let alpha = setting(0u);
    let g = {{ g }}[P.off_g + {{ at_g }}];
$$ if kind == "adamw"
    let kept = {{ w }}[at] * (1.0 - alpha * setting(4u));
    let at_m = P.off_m + {{ at_m }};
    let at_v = P.off_v + {{ at_v }};
    let m = {{ m }}[at_m] * setting(1u) + g * (1.0 - setting(1u));
    let v = {{ v }}[at_v] * setting(2u) + g * g * (1.0 - setting(2u));
    {{ m }}[at_m] = m;
    {{ v }}[at_v] = v;
    {{ w }}[at] = kept - alpha * (m * setting(5u)) / (sqrt(v * setting(6u)) + setting(3u));
$$ else
    {{ w }}[at] = {{ w }}[at] * (1.0 - alpha * setting(1u)) - alpha * g;
$$ endif
}
