"""Machine: where everything lies and who computes it, for the graph that makes the next token."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from imgui_bundle import imgui

from wggml.demo.chat_engine import ChatEngine
from wggml.demo.chat_state import ChatState
from wggml.demo.theme import SMALL, mix, u32
from wggml.demo.ui import GAP, Icon, Rect, Ui, nbytes_text
from wggml.inspect import GraphPlan, MemoryBuffer, Node, explain_cause
from wggml.inspect import Rect as Place

if TYPE_CHECKING:
    from wggml.demo.app import App

STRIP = 34.0


class MachineTab:
    """Memory map and split map on the left, devices and op table on the right."""

    name = "Machine"
    icon = Icon.CHIP

    def __init__(self, app: App) -> None:
        self.chat: ChatEngine = app.chat
        self.engine = app.engine
        self.devices = app.registry.devices()
        self.device = app.device
        self.layers: int | None = None  # while the slider is held
        self._seen = (0, 0.0, 0.1)  # tokens, when the last one came, how long it took

    def status(self) -> str:
        s = self.chat.state
        return f"{s.speed.per_second:.1f} tokens/s" if s.phase == "writing" else ""

    def drop(self, path: Path) -> bool:
        return False

    def draw(self, ui: Ui, width: float, height: float) -> None:
        s = self.chat.state
        right = min(max(360.0, width * 0.34), 460.0)
        left = width - right - GAP
        plan = s.plan
        split_height = 168.0
        with ui.card(
            "machine.memory", left, height - split_height - GAP, "Memory plan",
            plan.title if plan else "",
        ) as rect:  # fmt: skip
            if plan is None:
                ui.label("The plan shows up with the first token.")
            else:
                self._memory(ui, s, plan, rect)
        imgui.set_cursor_pos((0, height - split_height))
        with ui.card("machine.splits", left, split_height, "Who computes", _copied(plan)) as rect:
            if plan is not None:
                self._splits(ui, s, plan, rect)
        imgui.set_cursor_pos((left + GAP, 0))
        imgui.begin_group()
        with ui.card("machine.place", right, 196, "Placement"):
            self._placement(ui, s)
        imgui.set_cursor_pos_y(imgui.get_cursor_pos_y() + GAP - imgui.get_style().item_spacing.y)
        with ui.card("machine.ops", right, height - 196 - GAP, "Ops", scroll=True):
            if plan is not None:
                self._ops(ui, plan)
        imgui.end_group()

    # ---- placement -----------------------------------------------------------------------------

    def _placement(self, ui: Ui, s: ChatState) -> None:
        room = imgui.get_content_region_avail().x
        imgui.set_next_item_width(room)
        if imgui.begin_combo("##device", self.device.description):
            for i, device in enumerate(self.devices):
                chosen, _ = imgui.selectable(device.description, device is self.device)
                ui.place(f"machine.device.{i}")
                if chosen and device is not self.device:
                    self.device = device
                    self.chat.place(device=device.name)
            imgui.end_combo()
        ui.place("machine.device")
        total = s.n_layer + 1
        current = total if s.n_gpu_layers < 0 else min(s.n_gpu_layers, total)
        shown = current if self.layers is None else self.layers
        ui.label("Layers on the device, counted from the end")
        _, value = ui.int_slider("machine.layers", "", shown, 0, total, width=room)
        if imgui.is_mouse_down(imgui.MouseButton_.left):
            self.layers = value if value != current or self.layers is not None else None
        elif self.layers is not None:
            if self.layers != current:
                self.chat.place(n_gpu_layers=self.layers)
            self.layers = None
        if s.phase == "loading":
            ui.label(f"{s.progress_text}  {s.progress:.0%}")
        elif s.plan is not None:
            fixed = [
                f"{f.what} {nbytes_text(f.nbytes)} on {s.plan.splits.backends[f.backend].name}"
                for f in s.plan.fixed
            ]
            ui.text("; ".join(fixed), size=SMALL, colour=ui.p.dim, wrap=True)
        message = self.engine.errors.get("chat", "")
        if message:
            ui.notice(message)

    # ---- memory ----------------------------------------------------------------------------------

    def _memory(self, ui: Ui, s: ChatState, plan: GraphPlan, rect: Rect) -> None:
        x, y, w, h = rect
        foot = 40.0
        buffers = [
            (i, b) for i, b in enumerate(plan.memory.buffers) if b.peak
        ]  # a backend without a part in the graph has none
        if not buffers:
            return
        each = (h - foot) / len(buffers)
        hit: tuple[Place, MemoryBuffer] | None = None
        for k, (i, buffer) in enumerate(buffers):
            area = (x, y + k * each, w, each - 8)
            found = self._buffer(ui, plan, i, buffer, area)
            if found is not None:
                hit = (found, buffer)
        self._cursor(ui, s, plan, (x, y + 20, w, h - foot - 28))
        words, more = "Time runs to the right, addresses down. Point at a tensor.", ""
        if hit is not None:
            r = hit[0]
            shape = "x".join(str(n) for n in r.ne if n != 1) or "1"
            words = (
                f"{r.name or r.op}   {r.op.lower()}   {r.type} {shape}   {nbytes_text(r.nbytes)}"
            )
            took = f", in place of {r.inplace}" if r.inplace else ""
            reused = f", reuses {', '.join(r.reused[:3])}" if r.reused else ""
            more = f"at {r.offset}, from node {r.start} to {r.end}{took}{reused}"
        ui.draw_text(x, y + h - foot + 4, words)
        ui.draw_text(x, y + h - foot + 22, more, colour=ui.p.dim)

    def _buffer(
        self, ui: Ui, plan: GraphPlan, index: int, buffer: MemoryBuffer, area: Rect
    ) -> Place | None:
        """One backend's compute memory; returns the tensor under the mouse."""
        x, y, w, h = area
        p, draw = ui.p, imgui.get_window_draw_list()
        saved = max(1 - buffer.peak / max(buffer.tensor_bytes, 1), 0.0)
        ui.draw_text(x, y, buffer.name, face=ui.fonts.bold)
        ui.draw_text(
            x + w, y, f"peak {nbytes_text(buffer.peak)} of {nbytes_text(buffer.size)} held; all "
            f"tensors {nbytes_text(buffer.tensor_bytes)}, {saved:.0%} saved by reuse",
            colour=p.dim, align=1.0,
        )  # fmt: skip
        y, h = y + 20, h - 20
        draw.add_rect_filled((x, y), (x + w, y + h), u32(mix(p.panel, p.back, 0.6)), 4.0)
        steps, total = max(plan.memory.n_steps, 1), max(buffer.peak, 1)
        base = [0]
        for c in buffer.chunks:
            base.append(base[-1] + c.peak)
        mouse = imgui.get_io().mouse_pos
        at_step = (mouse.x - x) / w * (steps + 1)
        at_byte = (mouse.y - y) / h * total
        inside = imgui.is_window_hovered() and x <= mouse.x < x + w and y <= mouse.y < y + h
        hit = None
        colours = {
            "input": p.warn, "output": p.good, "copy": p.cpu, "leaf": p.dim, "node": p.accent,
        }  # fmt: skip
        for r in plan.memory.rects:
            if r.buffer != index:
                continue
            begin, end = max(r.start, 0), min(r.end, steps) + 1
            top = (base[r.chunk] + r.offset) / total * h
            high = max(r.size / total * h, 1.0)
            left, wide = begin / (steps + 1) * w, max((end - begin) / (steps + 1) * w, 1.0)
            over = (
                inside
                and begin <= at_step < end
                and 0 <= at_byte - base[r.chunk] - r.offset < r.size
            )
            if over:
                hit = r
            fill = u32(colours.get(r.kind, p.accent), 0.95 if over else 0.5)
            gap = 0.6 if wide > 3 else 0.0
            draw.add_rect_filled(
                (x + left, y + top),
                (x + left + wide - gap, y + top + high - min(0.6, high / 3)),
                fill,
            )
        return hit

    def _cursor(self, ui: Ui, s: ChatState, plan: GraphPlan, area: Rect) -> float:
        """The node under way, by the clock: how far this token should be after the last one's
        time. Returns its share of the graph; 0 while nothing runs."""
        now = time.perf_counter()
        if s.n_tokens != self._seen[0]:
            self._seen = (s.n_tokens, now, max(now - self._seen[1], 1e-3))
        if s.phase != "writing":
            return 0.0
        share = min((now - self._seen[1]) / self._seen[2], 1.0)
        x = area[0] + area[2] * share
        draw = imgui.get_window_draw_list()
        draw.add_line((x, area[1]), (x, area[1] + area[3]), u32(ui.p.text, 0.8), 1.5)
        nodes = plan.splits.nodes
        if nodes:
            node = nodes[min(int(share * len(nodes)), len(nodes) - 1)]
            ui.draw_text(
                min(x + 6, area[0] + area[2] - 110), area[1] + 4, node.name, size=SMALL,
                colour=ui.p.text,
            )  # fmt: skip
        return share

    # ---- splits ----------------------------------------------------------------------------------

    def _splits(self, ui: Ui, s: ChatState, plan: GraphPlan, rect: Rect) -> None:
        x, y, w, _ = rect
        p, draw = ui.p, imgui.get_window_draw_list()
        nodes = plan.splits.nodes
        n = max(len(nodes), 1)
        mouse = imgui.get_io().mouse_pos
        for split in plan.splits.splits:
            left, right = x + split.start / n * w, x + split.end / n * w
            colour = backend_colour(ui, plan, split.backend)
            draw.add_rect_filled(
                (left, y + 22), (max(right - 1, left + 1), y + 22 + STRIP), u32(colour, 0.75), 3.0
            )
        for c in plan.splits.copies:
            at = x + c.step / n * w
            draw.add_triangle_filled(
                (at - 4, y + 12), (at + 4, y + 12), (at, y + 20),
                u32(backend_colour(ui, plan, c.src)),
            )  # fmt: skip
        hovered: Node | None = None
        if imgui.is_window_hovered() and x <= mouse.x < x + w and y <= mouse.y < y + 24 + STRIP:
            hovered = nodes[min(int((mouse.x - x) / w * n), n - 1)] if nodes else None
            draw.add_line((mouse.x, y + 8), (mouse.x, y + 24 + STRIP), u32(p.text), 1.0)
        at = x
        for i, b in enumerate(plan.splits.backends):
            count = sum(node.backend == i and not node.is_view for node in nodes)
            text = f"{b.name}: {count} nodes"
            draw.add_rect_filled(
                (at, y + 70), (at + 10, y + 80), u32(backend_colour(ui, plan, i)), 2.0
            )
            ui.draw_text(at + 16, y + 67, text, colour=p.dim)
            at += ui.width(text, size=SMALL) + 36
        words = "Point at the strip to see why a node runs where it does. Triangles are copies."
        if hovered is not None:
            b = plan.splits.backends[hovered.backend]
            words = f"{hovered.name} ({hovered.op.lower()}) on {b.name}: {hovered.cause} "
            words += explain_cause(hovered.cause)
            words += f"; {hovered.left}" if hovered.left else ""
            arriving = [c for c in plan.splits.copies if abs(c.step - hovered.step) <= n / w * 3]
            if arriving:
                words += "   copies: " + ", ".join(
                    f"{c.name} {nbytes_text(c.nbytes)}" for c in arriving[:3]
                )
        draw.push_clip_rect((x, y), (x + w, y + 140), True)
        ui.draw_text(x, y + 90, words, colour=p.text if hovered else p.dim)
        draw.pop_clip_rect()

    # ---- ops -------------------------------------------------------------------------------------

    def _ops(self, ui: Ui, plan: GraphPlan) -> None:
        flags = imgui.TableFlags_.row_bg | imgui.TableFlags_.sizing_stretch_prop
        imgui.push_style_color(imgui.Col_.table_row_bg_alt, u32(ui.p.raised, 0.35))
        imgui.push_style_var(imgui.StyleVar_.cell_padding, (6, 3))
        if imgui.begin_table("ops", 4, flags):
            rows = sorted(plan.ops.rows, key=lambda r: (-r.nbytes, r.op))
            for column, weight in (("op", 3.0), ("weights", 1.4), ("on", 1.6), ("nodes", 1.0)):
                imgui.table_setup_column(column, 0, weight)
            imgui.table_next_row()
            for text in ("op", "weights", "on", "nodes"):
                imgui.table_next_column()
                ui.label(text)
            for r in rows:
                imgui.table_next_row()
                imgui.table_next_column()
                ui.text(r.op.lower(), size=SMALL, face=ui.fonts.mono)
                if imgui.is_item_hovered():
                    why = [f"{n} x {c} {explain_cause(c)}" for c, n in r.causes.items()]
                    imgui.set_tooltip("\n".join([*why, *r.left]))
                imgui.table_next_column()
                ui.label(r.weight)
                imgui.table_next_column()
                ui.text(
                    plan.ops.backends[r.backend].name, size=SMALL,
                    colour=backend_colour(ui, plan, r.backend),
                )  # fmt: skip
                imgui.table_next_column()
                ui.label(str(r.count))
            imgui.end_table()
        imgui.pop_style_var()
        imgui.pop_style_color()


def backend_colour(ui: Ui, plan: GraphPlan, index: int) -> int:
    """Blue for the device's, amber for the CPU's."""
    return ui.p.cpu if plan.splits.backends[index].kind == "cpu" else ui.p.gpu


def _copied(plan: GraphPlan | None) -> str:
    if plan is None:
        return ""
    s = plan.splits
    return f"{len(s.splits)} splits, {nbytes_text(s.copied_bytes)} copied a token"
