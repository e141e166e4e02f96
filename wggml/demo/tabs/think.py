"""Think: a chat whose tokens can be looked into."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from imgui_bundle import imgui

from wggml.demo.chat_engine import ChatEngine
from wggml.demo.chat_state import ChatState, Settings, TokenView, Turn
from wggml.demo.flow import Flow
from wggml.demo.theme import BODY, SMALL, TITLE, mix, u32
from wggml.demo.ui import GAP, Icon, Rect, Ui, heat_rgba

if TYPE_CHECKING:
    from wggml.demo.app import App

LINE = 24.0
BUBBLE = 12.0
SURE, UNSURE = 0.9, 0.05


class ThinkTab:
    """The conversation on the left, what the model considered on the right."""

    name = "Think"
    icon = Icon.CHAT

    def __init__(self, app: App) -> None:
        self.chat: ChatEngine = app.chat
        self.engine = app.engine
        self.draft = ""
        self.temperature = 0.7
        self.layer = self.head = 0
        self.inside = 0  # which view of the inside
        self.focus: tuple[int, int] | None = None  # turn and token that are looked at
        self._flows: dict[int, Flow] = {}
        self._follow = True
        self._take_focus = True

    @property
    def n_tokens(self) -> int:
        return self.chat.state.n_tokens

    def status(self) -> str:
        s = self.chat.state
        return f"{s.n_past} of {s.n_ctx} tokens in the context" if s.n_ctx else ""

    def drop(self, path: Path) -> bool:
        if path.suffix.lower() != ".gguf":
            return False
        self.focus = None
        self.chat.load(path)
        return True

    # ---- the page -----------------------------------------------------------------------------

    def draw(self, ui: Ui, width: float, height: float) -> None:
        s = self.chat.state
        right = min(max(380.0, width * 0.38), 520.0)
        left = width - right - GAP
        with ui.card("think.chat", left, height):
            self._heading(ui, s)
            self._messages(ui, s, imgui.get_content_region_avail().y - 96)
            self._input(ui, s)
        imgui.same_line(0, GAP)
        imgui.begin_group()
        top = 322.0 if height > 640 else 290.0
        note = "" if self.focus is None else "of the token under the mouse"
        with ui.card("think.top", right, top, "What could come next", note) as rect:
            self._candidates(ui, s, rect)
        imgui.set_cursor_pos_y(imgui.get_cursor_pos_y() + GAP - imgui.get_style().item_spacing.y)
        with ui.card("think.inside", right, height - top - GAP):
            self._look_inside(ui, s)
        imgui.end_group()

    def _heading(self, ui: Ui, s: ChatState) -> None:
        at, room = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x
        title = s.model.removesuffix(".gguf") or "No model"
        ui.draw_text(at.x, at.y, title, size=TITLE, face=ui.fonts.bold)
        ui.draw_text(at.x, at.y + TITLE + 5, s.about or "drop a .gguf file here", colour=ui.p.dim)
        speed = s.speed
        figures = [
            (f"{speed.per_second:.1f}", "tokens/s"),
            (f"{speed.prompt_per_second:.0f}", "prompt tokens/s"),
        ]
        x = at.x + room
        for value, what in reversed(figures):
            w = max(ui.width(value, size=TITLE, face=ui.fonts.bold), ui.width(what, size=SMALL))
            x -= w
            if speed.prompt_seconds:
                ui.draw_text(x + w, at.y, value, size=TITLE, face=ui.fonts.bold, align=1.0)
                ui.draw_text(x + w, at.y + TITLE + 5, what, colour=ui.p.dim, align=1.0)
            x -= 24
        imgui.dummy((room, TITLE + SMALL + 12))
        y = imgui.get_cursor_screen_pos().y - 4
        imgui.get_window_draw_list().add_line((at.x, y), (at.x + room, y), u32(ui.p.border), 1.0)

    def _messages(self, ui: Ui, s: ChatState, height: float) -> None:
        imgui.push_style_color(imgui.Col_.child_bg, 0)
        imgui.begin_child("messages", (0, max(height, 60.0)))
        imgui.pop_style_color()
        width = imgui.get_content_region_avail().x - 8
        at_end = imgui.get_scroll_y() >= imgui.get_scroll_max_y() - 4
        if s.phase == "loading":
            self._loading(ui, s, width)
        if not s.turns and s.phase != "loading":
            imgui.dummy((1, 6))
            hint = (
                "Ask it something. Every token of the answer is tinted by how sure the model was; "
                "point at one to see what else it considered, and click a candidate to go on from "
                "there."
            )
            ui.text(hint, colour=ui.p.dim, wrap=True)
        hovered = None
        for i, turn in enumerate(s.turns):
            if turn.role == "user":
                self._user(ui, turn, width)
            else:
                hovered = self._answer(ui, i, turn, width) or hovered
        if hovered is not None:
            self.focus = hovered
        message = self.engine.errors.get("chat", "")
        if message:
            ui.notice(message)
        elif s.note:
            ui.notice(s.note, bad=False)
        if at_end and s.phase in ("reading", "writing"):
            imgui.set_scroll_here_y(1.0)
        imgui.end_child()

    def _loading(self, ui: Ui, s: ChatState, width: float) -> None:
        at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
        w = min(width, 320.0)
        draw.add_rect_filled((at.x, at.y + 8), (at.x + w, at.y + 14), u32(ui.p.raised), 3)
        draw.add_rect_filled(
            (at.x, at.y + 8), (at.x + w * s.progress, at.y + 14), u32(ui.p.accent), 3
        )
        ui.draw_text(at.x, at.y + 22, s.progress_text, colour=ui.p.dim)
        imgui.dummy((w, 44))

    def _user(self, ui: Ui, turn: Turn, width: float) -> None:
        most = width * 0.78
        size = imgui.calc_text_size(turn.text, False, most - 2 * BUBBLE)
        at = imgui.get_cursor_screen_pos()
        x = at.x + width - size.x - 2 * BUBBLE
        box = (x, at.y, x + size.x + 2 * BUBBLE, at.y + size.y + 2 * BUBBLE * 0.7)
        draw = imgui.get_window_draw_list()
        fill = mix(ui.p.panel, ui.p.accent, 0.2)
        draw.add_rect_filled(box[:2], box[2:], u32(fill), 10.0)
        draw.add_text(
            ui.fonts.text, BODY, (x + BUBBLE, at.y + BUBBLE * 0.7), u32(ui.p.text), turn.text,
            most - 2 * BUBBLE + 1,
        )  # fmt: skip
        imgui.dummy((width, box[3] - box[1] + 6))

    def _answer(self, ui: Ui, index: int, turn: Turn, width: float) -> tuple[int, int] | None:
        """Draw an answer; returns (turn, token) under the mouse."""
        flow = self._flows.setdefault(index, Flow(lambda text: ui.width(text)))
        flow.lay_out([t.text for t in turn.tokens], width - 4)
        at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
        low, high = imgui.get_window_pos().y, imgui.get_window_pos().y + imgui.get_window_size().y
        mouse = imgui.get_io().mouse_pos
        inside = imgui.is_window_hovered()
        hit = None
        for item in flow.items:
            y = at.y + item.line * LINE
            if y + LINE < low or y > high:
                continue
            x = at.x + item.x
            token = turn.tokens[item.token]
            a, b = (x, y + 1), (x + item.width, y + LINE - 2)
            if inside and a[0] <= mouse.x < b[0] and y <= mouse.y < y + LINE:
                hit = (index, item.token)
            draw.add_rect_filled(a, b, u32(sureness(ui, token.prob), 0.26), 3.0)
            if (index, item.token) == self.focus:
                draw.add_rect(a, b, u32(ui.p.accent), 3.0, 1.5)
            draw.add_text((x, round(y + (LINE - BODY) / 2 - 2)), u32(ui.p.text), item.text)
            ui.places[f"think.token.{index}.{item.token}"] = (a[0], a[1], b[0] - a[0], b[1] - a[1])
        if not turn.tokens:
            ui.draw_text(at.x, at.y + 4, "reading the prompt ...", colour=ui.p.faint)
        imgui.dummy((width, flow.n_lines * LINE + 8))
        return hit

    def _input(self, ui: Ui, s: ChatState) -> None:
        at, room = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail()
        bottom = at.y + room.y
        imgui.set_cursor_screen_pos((at.x, bottom - 86))
        running = s.phase in ("reading", "writing")
        if s.phase == "ready":
            ui.places["think.ready"] = (0, 0, 1, 1)
        imgui.set_next_item_width(room.x - 104)
        if self._take_focus:
            imgui.set_keyboard_focus_here()
            self._take_focus = False
        hint = "Message" if s.template else "Text to continue"
        entered, self.draft = imgui.input_text_with_hint(
            "##draft", hint, self.draft, imgui.InputTextFlags_.enter_returns_true
        )
        ui.place("think.input")
        imgui.same_line()
        if running:
            if ui.button("think.stop", f"{Icon.STOP}  Stop", width=94):
                self.chat.stop()
        elif ui.button(
            "think.send", f"{Icon.SEND}  Send", primary=True, width=94,
            enabled=bool(self.draft.strip()) and s.phase == "ready",
        ):  # fmt: skip
            self._send()
        if entered:  # also while it writes: the answer ends there
            self._take_focus = True
            if s.n_ctx:
                self._send()
        imgui.set_cursor_screen_pos((at.x, bottom - 36))
        _, self.temperature = ui.slider(
            "think.temperature", "Temperature", self.temperature, 0.0, 1.5, width=140
        )
        imgui.same_line(0, 24)
        on = ui.toggle("think.xray", "Look inside", s.xray)
        if on != s.xray:
            self.chat.set_xray(on)
        clear = f"{Icon.RESET}  New chat"
        imgui.same_line(room.x - ui.width(clear) - 8)
        if ui.button("think.reset", clear, enabled=bool(s.turns)):
            self.focus = None
            self._flows.clear()
            self.chat.reset()

    def _send(self) -> None:
        text = self.draft.strip()
        if text:
            self.draft, self.focus, self._take_focus = "", None, True
            self.chat.send(text, self._settings())

    def _settings(self) -> Settings:
        return Settings(temperature=self.temperature)

    # ---- candidates -----------------------------------------------------------------------------

    def _looked_at(self, s: ChatState) -> tuple[tuple[int, int] | None, TokenView | None]:
        """The token under the mouse, else the newest."""
        if self.focus is not None:
            turn, token = self.focus
            if turn < len(s.turns) and token < len(s.turns[turn].tokens):
                return self.focus, s.turns[turn].tokens[token]
            self.focus = None
        for i in range(len(s.turns) - 1, -1, -1):
            if s.turns[i].tokens:
                return (i, len(s.turns[i].tokens) - 1), s.turns[i].tokens[-1]
        return None, None

    def _candidates(self, ui: Ui, s: ChatState, rect: Rect) -> None:
        where, token = self._looked_at(s)
        x, y, w, h = rect
        if token is None or where is None:
            ui.text("The ten likeliest tokens show up here.", colour=ui.p.faint)
            return
        row = h / 10
        most = max(token.top[0].prob, 1e-9)
        for i, c in enumerate(token.top):
            area = (x, y + i * row, w, row)
            imgui.set_cursor_screen_pos((x, y + i * row))
            if imgui.invisible_button(f"##candidate{i}", (w, row - 1)) and c.id != token.id:
                self.focus = None
                self.chat.branch(*where, c.id, self._settings())
            ui.place(f"think.candidate.{i}")
            if imgui.is_item_hovered():
                imgui.get_window_draw_list().add_rect_filled(
                    (x - 6, area[1]), (x + w + 6, area[1] + row - 1), u32(ui.p.raised, 0.7), 4.0
                )
                if c.id != token.id:
                    imgui.set_tooltip(f"{Icon.BRANCH}  go on from here with {c.text!r}")
            lit = c.id == token.id
            ui.bar_row(
                area, visible(c.text), c.prob / most, f"{c.prob:6.1%}", lit=lit,
                colour=ui.p.accent if lit else mix(ui.p.accent, ui.p.dim, 0.5),
            )  # fmt: skip

    # ---- the inside -----------------------------------------------------------------------------

    def _look_inside(self, ui: Ui, s: ChatState) -> None:
        self.inside = ui.segmented("think.view", ("Attention", "Layers", "Time"), self.inside)
        at, room = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail()
        rect = (at.x, at.y + 2, room.x, room.y - 2)
        if self.inside == 2:
            self._time(ui, s, rect)
        elif not s.xray:
            ui.text(
                "Switch on “Look inside” to see attention weights and what each layer would "
                "say. The model then runs without its fused attention kernel, so that these "
                "tensors exist: slower, and watched node by node.",
                colour=ui.p.dim, wrap=True,
            )  # fmt: skip
        elif self.inside == 0:
            self._attention(ui, s, rect)
        else:
            self._layers(ui, s, rect)

    def _attention(self, ui: Ui, s: ChatState, rect: Rect) -> None:
        a = s.attention
        half = (rect[2] - 110) / 2
        moved, self.layer = ui.int_slider(
            "think.layer", "Layer", self.layer, 0, max(s.n_layer - 1, 0), width=half
        )
        imgui.same_line(0, 16)
        moved2, self.head = ui.int_slider(
            "think.head", "Head", self.head, 0, max(s.n_head - 1, 0), width=half
        )
        if moved or moved2:
            self.chat.show_attention(self.layer, self.head)
        if a is None or not len(a.weights):
            ui.text("Attention shows up with the next token.", colour=ui.p.faint)
            return
        at = imgui.get_cursor_screen_pos()
        foot = 22.0
        side = min(rect[2], rect[1] + rect[3] - at.y - foot)
        if side < 40:
            return
        box = (at.x + (rect[2] - side) / 2, at.y, side, side)
        p = ui.p
        n = len(a.weights)
        shade = np.sqrt(a.weights.astype(np.float32))  # small weights would all look like none
        peak = 0xFFF3C4 if ui.dark else 0x0B2A5B
        pixels = heat_rgba(shade, mix(p.panel, p.raised, 0.5), p.accent, peak)
        ui.picture("attention", pixels, (id(a), ui.dark), box, smooth=n > side)
        ui.places["think.attention"] = box
        mouse = imgui.get_io().mouse_pos
        col, row = int((mouse.x - box[0]) / side * n), int((mouse.y - box[1]) / side * n)
        words = "Row: who looks. Column: at whom. Point at a square."
        if 0 <= col < n and 0 <= row < n and imgui.is_window_hovered():
            cell = side / n
            draw = imgui.get_window_draw_list()
            draw.add_rect(
                (box[0], box[1] + row * cell), (box[0] + side, box[1] + (row + 1) * cell),
                u32(p.text, 0.35), 0, 1.0,
            )  # fmt: skip
            draw.add_rect(
                (box[0] + col * cell, box[1] + row * cell),
                (box[0] + (col + 1) * cell, box[1] + (row + 1) * cell), u32(p.text), 0, 1.5,
            )  # fmt: skip
            words = (
                f"{visible(a.labels[row])}  looks at  {visible(a.labels[col])}  "
                f"with {float(a.weights[row, col]):.1%}"
            )
        ui.draw_text(at.x + rect[2] / 2, at.y + side + 5, words, colour=p.dim, align=0.5)

    def _layers(self, ui: Ui, s: ChatState, rect: Rect) -> None:
        _, token = self._looked_at(s)
        inside = token.inside if token is not None else None
        if token is None or inside is None:
            ui.text("Shown for tokens made while “Look inside” is on.", colour=ui.p.faint)
            return
        x, y, w, h = rect
        p, mono = ui.p, ui.fonts.mono
        n = len(inside.norms)
        heads = 20.0
        row = min((h - heads) / n, 20.0)
        size = min(SMALL, row * 0.92)
        columns = (x, x + 34, x + 0.52 * w)
        for text, at in zip(
            ("layer", "would say", f"finds {visible(token.text)}"), columns, strict=True
        ):
            ui.draw_text(at, y, text, colour=p.dim)
        ui.draw_text(x + w, y, "length", colour=p.dim, align=1.0)
        draw = imgui.get_window_draw_list()
        longest = max(inside.norms)
        for i in range(n):
            top = y + heads + i * row
            guess = inside.guesses[i]
            right = guess.id == token.id
            colour = p.good if right else mix(p.dim, p.text, guess.prob)
            ui.draw_text(columns[0], top, f"{i:2d}", size=size, colour=p.faint, face=mono)
            draw.push_clip_rect((columns[1], top), (columns[2] - 6, top + row), True)
            ui.draw_text(columns[1], top, visible(guess.text), size=size, colour=colour)
            draw.pop_clip_rect()
            length = 0.28 * w
            for start, share, fill in (
                (columns[2], inside.chosen[i], p.good), (x + 0.84 * w, None, p.accent),
            ):  # fmt: skip
                full = length if share is not None else 0.16 * w
                value = share if share is not None else inside.norms[i] / longest
                low, high = top + row * 0.22, top + row * 0.82
                draw.add_rect_filled((start, low), (start + full, high), u32(p.raised), 2)
                draw.add_rect_filled((start, low), (start + full * value, high), u32(fill), 2)

    def _time(self, ui: Ui, s: ChatState, rect: Rect) -> None:
        if ui.button("think.trace", f"{Icon.CLOCK}  Measure a token", enabled=s.n_ctx > 0):
            self.chat.trace()
        if not s.families:
            ui.text("Where a token's time goes, by op family, each dispatch timed by the device.",
                    colour=ui.p.dim, wrap=True)  # fmt: skip
            return
        imgui.same_line()
        imgui.align_text_to_frame_padding()
        ui.label(f"{s.families_of:.1f} ms in all")
        x, y, w, _ = rect
        top = max(ms for _, ms in s.families)
        for i, (family, ms) in enumerate(s.families[:12]):
            ui.bar_row((x, y + 40 + i * 25, w, 23), family, ms / top, f"{ms:.2f}", label_width=170)


def sureness(ui: Ui, prob: float) -> int:
    """A tint from red (the model was guessing) over amber to green (it was sure)."""
    span = np.log(SURE / UNSURE)
    share = float(np.log(max(prob, 1e-6) / UNSURE) / span)
    if share < 0.5:
        return mix(ui.p.bad, ui.p.warn, 2 * share)
    return mix(ui.p.warn, ui.p.good, 2 * share - 1)


def visible(text: str) -> str:
    """A token's text with its blanks made visible, in glyphs that the faces have."""
    text = text.replace("\n", "\\n").replace("\t", "\\t")
    return "·" + text[1:] if text.startswith(" ") else text or "\u2205"
