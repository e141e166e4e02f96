"""The HTML pages: complete in themselves, small, and without errors in a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from wggml import inspect
from wggml.inspect.families import FAMILIES
from wggml.inspect.pages import render_page
from wggml.inspect.plan_page import layers_of, plan_page
from wggml.inspect.trace import trace_token
from wggml.inspect.trace_page import trace_page
from wggml.llama import Llama

Open = Callable[..., Llama]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
MOVES = """<script>
for (const c of document.querySelectorAll("canvas")) {
  const r = c.getBoundingClientRect();
  for (let i = 0; i < 40; i++) {
    const at = {clientX: r.left + r.width * i / 40, clientY: r.top + r.height * (i % 8) / 8};
    c.dispatchEvent(new PointerEvent("pointermove", {bubbles: true, ...at}));
  }
  c.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight"}));
  c.dispatchEvent(new KeyboardEvent("keydown", {key: "+"}));
  c.dispatchEvent(new PointerEvent("pointerleave", {}));
}
requestAnimationFrame(() => requestAnimationFrame(() => {
  const drawn = [...document.querySelectorAll("canvas")].map((c) => {
    const px = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
    return new Set(new Uint32Array(px.buffer)).size;
  });
  console.log("DRAWN " + JSON.stringify(drawn));
}));
</script>"""


@pytest.fixture(scope="module")
def browser() -> str:
    for name in BROWSERS:
        if path := shutil.which(name):
            return path
    pytest.skip("no Chromium here (apt install chromium)")


def data_of(page: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found is not None
    data = json.loads(found[1])
    assert isinstance(data, dict)
    return data


def check_offline(page: str) -> None:
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!data:)""", page)
    assert not re.search(r"@import|url\(|https?://|fetch\(|XMLHttpRequest", page)
    assert "prefers-color-scheme: dark" in page


def check_in_browser(browser: str, page: str, path: Path) -> list[int]:
    """Open the page, move over all of it; returns how many colours each canvas shows."""
    path.write_text(page.replace("</body>", MOVES + "</body>"), encoding="utf-8")
    # on a busy machine the page's virtual time may run out before its frames were drawn
    for budget in (2_000, 20_000, 60_000):
        done = subprocess.run(
            [
                browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                f"--virtual-time-budget={budget}", "--window-size=1400,2000", "--dump-dom",
                path.as_uri(),
            ],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        if said:
            break
    drawn = [line for line in said if "DRAWN" in line]
    assert len(said) == len(drawn) == 1, said or done.stderr[-2000:]
    colours = re.search(r"DRAWN (\[[0-9,]*\])", drawn[0])
    assert colours is not None
    return list(json.loads(colours[1]))


def test_plan_page(open_tiny: Open, gpu: str, tmp_path: Path, browser: str):
    with open_tiny(gpu, "gemma3", n_gpu_layers=4, fill_weights=False) as llama:
        taken = inspect.plan_context(llama.context, 32)
    page = plan_page(taken)
    check_offline(page)
    data = data_of(page)
    assert len(data["rects"]) == len(taken.memory.rects)  # type: ignore[arg-type]
    for r in data["rects"]:  # type: ignore[attr-defined]
        assert r["family"] in FAMILIES
    colours = check_in_browser(browser, page, tmp_path / "plan.html")
    assert len(colours) == 3 and min(colours) > 20, colours


def test_trace_page(open_tiny: Open, gpu: str, tmp_path: Path, browser: str):
    with open_tiny(gpu, n_gpu_layers=2) as llama:
        taken = trace_token(llama, "abc", 3)
    page = trace_page(taken)
    check_offline(page)
    colours = check_in_browser(browser, page, tmp_path / "trace.html")
    assert len(colours) == 1 and colours[0] > 8, colours


def test_a_page_of_eleven_hundred_nodes_is_below_2_mb(open_tiny: Open):
    with open_tiny("cpu", "gemma3") as llama:
        taken = inspect.plan_context(llama.context, 32)
    n = len(taken.splits.nodes)
    assert len(plan_page(taken)) / n * 1100 < 2e6


def test_text_from_outside_cannot_leave_its_place():
    """Names of tensors come out of files."""
    bad = "</script><script>alert(1)</script>"
    with pytest.raises(Exception, match="undefined"):
        render_page("plan.html.j2", bad, {"x": bad})
    page = render_page(
        "plan.html.j2", bad, {"x": bad}, notes=[bad], backends=[], tiles=[], families=[],
        buffers=[], causes=[], ops=[],
    )  # fmt: skip
    assert "<script>alert" not in page
    assert data_of(page) == {"x": bad}


def test_layers_are_read_from_names(open_tiny: Open):
    with open_tiny("cpu", "gemma3") as llama:
        taken = inspect.plan_context(llama.context, 4)
        n_layer = llama.model.hp.n_layer
    found = layers_of(taken.splits.nodes)
    assert [layer for layer, _, _ in found] == list(range(n_layer))
    assert all(a[2] == b[1] for a, b in pairwise(found))
