"use strict";
// The trace page: tracks of spans over microseconds. Spans that lie within others are drawn below.

const tracks = data.tracks;
const view = new View(data.total, 20);
view.left = 96;
const ROW = 26, TRACK_GAP = 18, TOP = 26;
let hovered = null;

const phaseColours = {
  build: "f-elementwise", split: "f-rope", alloc: "f-norm", compile: "f-other", inputs: "f-input", copy: "f-copy",
  record: "f-rows", submit: "f-attention", compute: "f-matmul", wait: "band", readback: "f-leaf", sample: "f-other",
};
const spanColour = (track, s) => colour(track.host ? phaseColours[s.family] ?? "f-other" : "f-" + s.family);

let y = TOP;
for (const track of tracks) {
  track.top = y;
  const open = [];
  track.rows = 1;
  for (const s of track.spans) {
    while (open.length && open[open.length - 1].end <= s.start + 1e-3) open.pop();
    s.end = s.start + s.duration;
    s.row = track.host ? open.length : 0;
    open.push(s);
    track.rows = Math.max(track.rows, s.row + 1);
  }
  y += track.rows * ROW + TRACK_GAP;
}
const height = y + 6, canvas = $("timeline");

function niceTime(most) {
  for (let step = 1; ; step *= 10) for (const k of [1, 2, 5]) if ((view.x1 - view.x0) / (step * k) <= most) return step * k;
}

function drawGrid(c) {
  const step = niceTime(12), right = canvas.clientWidth - view.right;
  c.textAlign = "center";
  for (let at = Math.ceil(view.x0 / step) * step; at <= view.x1; at += step) {
    const x = view.px(canvas, at);
    c.strokeStyle = colour("grid");
    c.lineWidth = 1;
    c.beginPath(); c.moveTo(x, TOP - 6); c.lineTo(x, height - 12); c.stroke();
    c.fillStyle = colour("faint");
    if (x < right - 20) c.fillText(timeText(at).replace(/\.0+ /, " "), x, 10);
  }
  c.textAlign = "left";
}

function drawTrack(c, track) {
  c.fillStyle = colour("soft");
  c.textAlign = "right";
  c.fillText(track.name, view.left - 10, track.top + ROW / 2 - (track.note ? 6 : 0));
  c.fillStyle = colour("faint");
  if (track.note) c.fillText(track.note, view.left - 10, track.top + ROW / 2 + 7);
  c.textAlign = "left";
  const right = canvas.clientWidth - view.right;
  for (const s of track.spans) {
    const x0 = view.px(canvas, s.start), x1 = view.px(canvas, s.end);
    if (x1 < view.left || x0 > right) continue;
    const l = Math.max(x0, view.left), w = Math.max(Math.min(x1, right) - l, .7), top = track.top + s.row * ROW;
    c.fillStyle = spanColour(track, s);
    c.globalAlpha = hovered && hovered !== s ? .55 : .95;
    c.fillRect(l, top, w > 3 ? w - .7 : w, ROW - 3);
    c.globalAlpha = 1;
    if (track.host && s.family === "wait") { c.strokeStyle = colour("line"); c.lineWidth = 1; c.strokeRect(l + .5, top + .5, w - 1, ROW - 4); }
    if (hovered === s) { c.strokeStyle = colour("text"); c.lineWidth = 1.5; c.strokeRect(l - .5, top - .5, w + 1, ROW - 2); }
    if (w > 30) {
      c.fillStyle = track.host && s.family === "wait" ? colour("soft") : "#fff";
      textIn(c, track.host ? s.name : s.name.replace(/ \| /g, ", "), l + 5, top + ROW / 2 - 1, w - 9);
    }
  }
}

redraws.push(() => {
  const c = prepare(canvas, height);
  drawGrid(c);
  for (const track of tracks) drawTrack(c, track);
  if (view.cursor === null) return;
  const x = view.px(canvas, view.cursor);
  c.strokeStyle = colour("text");
  c.globalAlpha = .4;
  c.beginPath(); c.moveTo(x, TOP - 6); c.lineTo(x, height - 12); c.stroke();
  c.globalAlpha = 1;
});

function spanAt(px, py) {
  const at = view.at(canvas, px), slack = 1.5 / view.scale(canvas);
  for (const track of tracks) {
    const row = Math.floor((py - track.top) / ROW);
    if (row < 0 || row >= track.rows) continue;
    let best = null;
    for (const s of track.spans) if (s.row === row && at >= s.start - slack && at <= s.end + slack && (!best || (at >= s.start && at <= s.end))) best = s;
    if (best) return [track, best];
  }
  return null;
}

view.attach(canvas);
canvas.addEventListener("pointermove", (e) => {
  const found = spanAt(e.offsetX, e.offsetY);
  hovered = found ? found[1] : null;
  view.cursor = e.offsetX >= view.left ? Math.min(Math.max(view.at(canvas, e.offsetX), 0), data.total) : null;
  redraw();
  if (!found) { hideTip(); return; }
  const [track, s] = found;
  showTip(e, s.name, [["took", timeText(s.duration)], ["from", timeText(s.start)], ["on", track.name], ["kernel", track.host ? "" : s.detail], ["", track.host ? s.detail : ""]].filter((r) => r[1]));
});
canvas.addEventListener("pointerleave", () => { hovered = null; view.cursor = null; hideTip(); redraw(); });
$("status").textContent = "Ctrl or Shift + wheel zooms, dragging pans, a double click shows all.";
redraw();
