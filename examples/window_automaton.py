"""python examples/window_automaton.py [DEVICE [SECONDS]]: a graph a frame, the mouse its input.
Gray and Scott's reaction of two substances u and v; hold a button to pour some v in.
"""

import sys

import numpy as np
from rendercanvas.glfw import RenderCanvas, loop

from wggml import Session, default_registry, ops

SIDE, STEPS, FEED, KILL = 192, 6, 0.037, 0.06
SPREAD = np.array([[0.05, 0.2, 0.05], [0.2, -1.0, 0.2], [0.05, 0.2, 0.05]], np.float32)
PAPER, INK = np.array([24, 16, 12, 255]), np.array([231, 184, 66, 0])  # blue, green, red, alpha

device, seconds = (sys.argv[1:] + ["0", "1e6"][len(sys.argv) - 1 :])[:2]
canvas = RenderCanvas(size=(768, 768), title="automaton", update_mode="continuous", max_fps=60)
s, screen = Session(device), canvas.get_wgpu_context()
gpu = default_registry().devices()[0].adapter.gpu.request_device_sync()
screen.configure(device=gpu, format="bgra8unorm", usage="COPY_DST | RENDER_ATTACHMENT")
state = [np.ones((SIDE, SIDE), np.float32), np.zeros((SIDE, SIDE), np.float32)]
c, (kernel, u, v) = s.context, (s.tensor(x) for x in (SPREAD[None, None], *state))


def spread(t):
    return ops.conv_2d_direct(c, kernel, ops.pad(c, t, (1, 1), (1, 1), circular=True))


a, b = u, v
for _ in range(STEPS):
    r = a * b * b
    a, b = a + spread(a) - r + (a * -FEED + FEED), b + spread(b) * 0.5 + r - b * (FEED + KILL)


@canvas.add_event_handler("pointer_move", "pointer_down")
def pour(event):
    x, y = (int(event[k] * SIDE / n) for k, n in zip("xy", canvas.get_logical_size(), strict=True))
    if event["buttons"]:
        state[1][max(y - 3, 0) : y + 3, max(x - 3, 0) : x + 3] = 0.5


@canvas.request_draw
def frame():
    u.set(state[0]), v.set(state[1])
    state[:] = s.compute(a, b)
    target, encoder = screen.get_current_texture(), gpu.create_command_encoder()
    columns, rows = (np.arange(n) * SIDE // n for n in target.size[:2])
    pixels = (np.clip(state[1] * 3, 0, 1)[..., None] * INK + PAPER).astype(np.uint8)
    picture = gpu.create_texture(size=target.size, format=target.format, usage="COPY_SRC|COPY_DST")
    data, layout = pixels[rows[:, None], columns], {"bytes_per_row": 4 * len(columns)}
    gpu.queue.write_texture({"texture": picture}, data, layout, target.size)
    encoder.copy_texture_to_texture({"texture": picture}, {"texture": target}, target.size)
    gpu.queue.submit([encoder.finish()])


pour({"x": 384, "y": 384, "buttons": [1]})
loop.call_later(float(seconds), canvas.close)
loop.run()
s.close()
