"""One graph over all devices of this machine: the scheduler cuts it where the weights lie.

    python examples/two_devices.py

On a machine without a GPU, the software drivers that `tools/get_vulkan.py` brings serve as two.
"""

from __future__ import annotations

import numpy as np

from wggml import Session


def main() -> int:
    rng = np.random.default_rng(0)
    with Session("0,1") as s:
        for i, d in enumerate(s.devices):
            print(f"device {i}: {d.name}, {d.description}")
        x = s.tensor(rng.standard_normal((4, 32)), device=0, name="x")
        layers = [
            s.tensor(rng.standard_normal((32, 32)) / 6, device=i, name=f"w{i}")
            for i in range(len(s.devices))
        ]
        y = x
        for w in layers:
            y = y @ w.T + y  # each product runs where its weights are
        result = s.compute(y)
        print(s.describe())

        want = x.numpy()
        for w in layers:
            want = want @ w.numpy().T + want
    print("largest difference to NumPy:", np.abs(result - want).max())
    np.testing.assert_allclose(result, want, rtol=1e-3, atol=1e-4)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
