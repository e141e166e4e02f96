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

// Sine and cosine of any finite angle, within 2e-7; devices promise 2^-11 at best. The angle loses
// the nearest multiple of pi/2, in three parts, and the series of what is left are summed.
fn sine(r: V) -> V {
    let z = r * r;
    return r + r * z * (-0.16666667 + z * (0.008333334 + z * (-0.0001984127 + z * 2.7557319e-6)));
}

fn cosine(r: V) -> V {
    let z = r * r;
    return V(1.0) + z * (-0.5 + z * (0.041666668 + z * (-0.0013888889 + z * 2.4801587e-5)));
}

// The sine of `x` turned by `ahead` right angles.
fn sine_ahead(x: V, ahead: f32) -> V {
    let k = round(x * 0.6366197723675814);
    let r = ((x - k * 1.5703125) - k * 0.0004837512969970703) - k * 7.54978979e-8;
    let turns = k + ahead;
    let quarter = turns - 4.0 * floor(turns * 0.25);
    let odd = quarter - 2.0 * floor(quarter * 0.5) == V(1.0);
    return select(sine(r), cosine(r), odd) * select(V(1.0), V(-1.0), quarter >= V(2.0));
}

fn sin_of(x: V) -> V { return sine_ahead(x, 0.0); }
fn cos_of(x: V) -> V { return sine_ahead(x, 1.0); }
