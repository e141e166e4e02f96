{# Functions used by activations, on `vtype` (f32 or vec4<f32>). #}
alias V = {{ vtype }};

// Past 15 tanh is 1 in f32; drivers that go through exp would make infinity / infinity of it.
fn tanh_safe(x: V) -> V {
    return tanh(clamp(x, V(-15.0), V(15.0)));
}

fn sigmoid(x: V) -> V {
    return V(1.0) / (V(1.0) + exp(-x));
}

fn gelu(x: V) -> V {
    return 0.5 * x * (V(1.0) + tanh_safe(0.7978845608028654 * x * (V(1.0) + 0.044715 * x * x)));
}

fn gelu_quick(x: V) -> V {
    return x * sigmoid(1.702 * x);
}

// Error function: Abramowitz and Stegun 7.1.26, absolute error below 1.5e-7.
fn erf(x: V) -> V {
    let a = abs(x);
    let t = V(1.0) / (V(1.0) + 0.3275911 * a);
    let p = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    return sign(x) * (V(1.0) - p * exp(-a * a));
}

fn gelu_erf(x: V) -> V {
    return 0.5 * x * (V(1.0) + erf(x * 0.7071067811865476));
}

// exp(x) - 1 without cancellation near 0.
fn expm1(x: V) -> V {
    return select(exp(x) - V(1.0), x * (V(1.0) + x * (0.5 + x * (0.16666667 + x * 0.041666668))), abs(x) < V(0.02));
}

// Halves round away from zero, as C's roundf; WGSL's round goes to even.
fn round_away(x: V) -> V {
    return sign(x) * floor(abs(x) + V(0.5));
}

// Sine and cosine of any finite angle: devices promise accuracy only near 0, so the angle is first
// brought to [-pi, pi] with 2 pi in three parts.
fn reduced(x: V) -> V {
    let k = round(x * 0.15915494309189535);
    return ((x - k * 6.28125) - k * 0.0019340515136718750) - k * 1.2556659146670405e-6;
}
fn sin_of(x: V) -> V { return sin(reduced(x)); }
fn cos_of(x: V) -> V { return cos(reduced(x)); }
