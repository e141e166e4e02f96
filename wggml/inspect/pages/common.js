"use strict";
// Shared by all pages: sizes and times in words, theme colours, sharp canvases, the hover box, and
// one horizontal view (zoom, pan, cursor) that all maps of a page show together.

const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);

function bytesText(n) {
  if (n >= 2 ** 30) return (n / 2 ** 30).toFixed(2) + " GiB";
  if (n >= 2 ** 20) return (n / 2 ** 20).toFixed(n >= 2 ** 27 ? 0 : 1) + " MiB";
  if (n >= 2 ** 10) return (n / 2 ** 10).toFixed(n >= 2 ** 17 ? 0 : 1) + " KiB";
  return n + " B";
}

function timeText(us) {
  if (us >= 1e6) return (us / 1e6).toFixed(2) + " s";
  if (us >= 1e3) return (us / 1e3).toFixed(us >= 1e5 ? 0 : 2) + " ms";
  return us.toFixed(us >= 100 ? 0 : 1) + " µs";
}

let colours = {};
function colour(name) {
  if (!(name in colours)) colours[name] = getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  return colours[name];
}

const redraws = [];
let pending = false;
function redraw() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => { pending = false; for (const draw of redraws) draw(); });
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colours = {}; redraw(); });
addEventListener("resize", redraw);

// A canvas of `height` CSS pixels; returns its context, cleared, in CSS pixels.
function prepare(canvas, height) {
  const width = canvas.clientWidth, scale = devicePixelRatio || 1;
  canvas.style.height = height + "px";
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const c = canvas.getContext("2d");
  c.setTransform(scale, 0, 0, scale, 0, 0);
  c.clearRect(0, 0, width, height);
  c.font = "11px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
  c.textBaseline = "middle";
  c.textAlign = "left";
  return c;
}

// Text cut to `width` pixels; nothing where even three letters do not fit.
function textIn(c, text, x, y, width) {
  if (width < 22) return;
  if (c.measureText(text).width <= width) { c.fillText(text, x, y); return; }
  let n = Math.floor(text.length * width / c.measureText(text).width);
  while (n > 2 && c.measureText(text.slice(0, n) + "…").width > width) n--;
  if (n > 2) c.fillText(text.slice(0, n) + "…", x, y);
}

const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const safe = (text) => String(text).replace(/[&<>"]/g, (ch) => escapes[ch]);

function showTip(event, title, rows) {
  const tip = $("tip");
  const cells = rows.filter((r) => r[1] !== "").map((r) => `<tr><td>${safe(r[0])}</td><td>${safe(r[1])}</td></tr>`);
  tip.innerHTML = `<b>${safe(title)}</b><table>${cells.join("")}</table>`;
  const w = tip.offsetWidth, h = tip.offsetHeight;
  tip.style.left = Math.max(4, Math.min(event.clientX + 16, innerWidth - w - 8)) + "px";
  const below = event.clientY + 18;
  tip.style.top = Math.max(4, below + h > innerHeight - 40 ? event.clientY - h - 12 : below) + "px";
  tip.style.visibility = "visible";
}
function hideTip() { $("tip").style.visibility = "hidden"; }

// The part of the horizontal axis that is shown, [x0, x1] within [0, full].
class View {
  constructor(full, least) { this.full = full; this.least = least; this.x0 = 0; this.x1 = full; this.left = 72; this.right = 14; this.cursor = null; }
  px(canvas, x) { return this.left + (x - this.x0) / (this.x1 - this.x0) * (canvas.clientWidth - this.left - this.right); }
  at(canvas, px) { return this.x0 + (px - this.left) / (canvas.clientWidth - this.left - this.right) * (this.x1 - this.x0); }
  scale(canvas) { return (canvas.clientWidth - this.left - this.right) / (this.x1 - this.x0); }
  show(x0, x1) {
    const span = Math.min(Math.max(x1 - x0, this.least), this.full);
    this.x0 = Math.min(Math.max(x0, 0), this.full - span);
    this.x1 = this.x0 + span;
    redraw();
  }
  // Ctrl or Shift with the wheel zooms, dragging pans, a double click shows all again.
  attach(canvas) {
    let drag = null;
    canvas.tabIndex = 0;
    canvas.addEventListener("wheel", (e) => {
      const sideways = Math.abs(e.deltaX) > Math.abs(e.deltaY);
      if (!(e.ctrlKey || e.shiftKey || sideways)) return;
      e.preventDefault();
      const span = this.x1 - this.x0;
      if (sideways && !e.ctrlKey && !e.shiftKey) { this.show(this.x0 + e.deltaX / canvas.clientWidth * span, this.x1 + e.deltaX / canvas.clientWidth * span); return; }
      const at = this.at(canvas, e.offsetX), by = Math.exp((e.deltaY || e.deltaX) * .002);
      this.show(at - (at - this.x0) * by, at + (this.x1 - at) * by);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (e) => { drag = { x: e.offsetX, x0: this.x0, x1: this.x1 }; canvas.setPointerCapture(e.pointerId); canvas.focus({ preventScroll: true }); });
    canvas.addEventListener("pointerup", () => { drag = null; });
    canvas.addEventListener("pointermove", (e) => {
      if (!drag) return;
      const by = (drag.x - e.offsetX) / this.scale(canvas);
      this.show(drag.x0 + by, drag.x1 + by);
    });
    canvas.addEventListener("dblclick", () => this.show(0, this.full));
    canvas.addEventListener("keydown", (e) => {
      const span = this.x1 - this.x0, mid = this.cursor ?? (this.x0 + this.x1) / 2;
      if (e.key === "+" || e.key === "=") this.show(mid - span / 3, mid + span / 3);
      else if (e.key === "-") this.show(mid - span * .75, mid + span * .75);
      else if (e.key === "0") this.show(0, this.full);
    });
  }
}

function arrow(c, x0, y0, x1, y1, width) {
  const bend = (y1 - y0) * .5;
  c.lineWidth = width;
  c.beginPath();
  c.moveTo(x0, y0);
  c.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1);
  c.stroke();
  const s = 3.5 + width, dir = Math.sign(y1 - y0) || 1;
  c.beginPath();
  c.moveTo(x1, y1 + dir * 1);
  c.lineTo(x1 - s * .6, y1 - dir * s);
  c.lineTo(x1 + s * .6, y1 - dir * s);
  c.closePath();
  c.fill();
}
