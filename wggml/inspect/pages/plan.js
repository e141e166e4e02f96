"use strict";
// The plan page: memory maps (one canvas per buffer) and the split map over one axis of steps.

const nodes = data.nodes, rects = data.rects, backends = data.backends;
const view = new View(data.n_steps, 8);
let hovered = null;

const backendColour = (b) => colour(backends[b].kind === "cpu" ? "b-cpu" : "b-" + Math.min(b, 3));
const shape = (ne) => { let n = 4; while (n > 1 && ne[n - 1] === 1) n--; return ne.slice(0, n).join(" × "); };
const plural = (n, what, many) => `${n} ${n === 1 ? what : many ?? what + "s"}`;

function stepText(r) {
  const from = r.start < 0 ? "before the run" : "#" + r.start;
  return from + " – " + (r.end >= data.n_steps ? "stays" : "#" + r.end);
}

function tell(step) {
  const n = nodes[step];
  if (!n) { $("status").textContent = "Move over a map. Ctrl or Shift + wheel zooms, dragging pans, a double click shows all, arrow keys step."; return; }
  const b = backends[n.backend];
  $("status").innerHTML = `<b>#${step} ${safe(n.name)}</b> &nbsp; ${safe(n.op)} &nbsp; ${safe(n.type)} [${shape(n.ne)}] &nbsp; ${bytesText(n.nbytes)} &nbsp; ` +
    `<span class="chip" style="background:${backendColour(n.backend)}"></span> ${safe(b.name)} &nbsp; <code>${safe(n.cause)}</code> <span class="soft">${safe(n.why)}</span>`;
}

function setCursor(step) {
  view.cursor = step;
  tell(step);
  redraw();
}

// Layers as bands with their number; `top` and `bottom` in pixels.
function drawLayers(c, canvas, top, bottom, label) {
  const right = canvas.clientWidth - view.right;
  data.layers.forEach(([layer, start, end]) => {
    const x0 = Math.max(view.px(canvas, start), view.left), x1 = Math.min(view.px(canvas, end), right);
    if (x1 <= x0) return;
    if (layer % 2) { c.fillStyle = colour("band"); c.fillRect(x0, top, x1 - x0, bottom - top); }
    if (!label) return;
    c.fillStyle = colour("faint");
    c.textAlign = "center";
    const text = x1 - x0 > 56 ? "layer " + layer : x1 - x0 > 15 ? String(layer) : "";
    c.fillText(text, (x0 + x1) / 2, top - 8);
    c.textAlign = "left";
  });
}

function drawCursor(c, canvas, top, bottom) {
  if (view.cursor === null) return;
  const x = view.px(canvas, view.cursor), w = Math.max(view.scale(canvas), 1);
  if (x + w < view.left || x > canvas.clientWidth - view.right) return;
  c.fillStyle = colour("text");
  c.globalAlpha = .16;
  c.fillRect(x, top, w, bottom - top);
  c.globalAlpha = 1;
}

function niceStep(range, most) {
  let step = 1;
  while (range / step > most) step *= 2;
  return step;
}

// ---- memory ------------------------------------------------------------------------------------

const LARGEST = 400, SMALLEST = 110, CHUNK_GAP = 12, TOP = 20, USAGE = 40, AXIS = 18;
const largestPeak = Math.max(1, ...data.buffers.map((b) => b.peak));

function memoryPanel(index) {
  const buffer = data.buffers[index], canvas = $("memory-" + index);
  const mine = rects.filter((r) => r.buffer === index);
  const plot = Math.max(SMALLEST, LARGEST * Math.sqrt(buffer.peak / largestPeak)) + CHUNK_GAP * Math.max(buffer.chunks.length - 1, 0);
  const perByte = (plot - CHUNK_GAP * Math.max(buffer.chunks.length - 1, 0)) / Math.max(buffer.peak, 1);
  const tops = [];
  buffer.chunks.reduce((y, chunk) => { tops.push(y); return y + chunk.peak * perByte + CHUNK_GAP; }, TOP);
  const bottom = TOP + plot, height = bottom + 10 + USAGE + AXIS;

  // [x, y, width, height] in pixels
  function box(r) {
    const x0 = view.px(canvas, Math.max(r.start, 0)), x1 = view.px(canvas, Math.min(r.end + 1, data.n_steps));
    const l = Math.max(x0, view.left), right = Math.min(x1, canvas.clientWidth - view.right);
    return [l, tops[r.chunk] + r.offset * perByte, Math.max(right - l, 0), Math.max(r.size * perByte, .75)];
  }

  function drawRects(c) {
    for (const r of mine) {
      const [x, y, w, h] = box(r);
      if (w <= 0) continue;
      const dim = hovered?.related && hovered.buffer === index && hovered !== r && !hovered.related.has(r.name);
      c.globalAlpha = dim ? .38 : .9;
      c.fillStyle = colour("f-" + r.family);
      c.fillRect(x, y, Math.max(w - (w > 3 ? .6 : 0), .6), Math.max(h - (h > 3 ? .6 : 0), .6));
      if (h > 11 && w > 34) {
        c.fillStyle = "#fff";
        c.globalAlpha = dim ? .5 : 1;
        textIn(c, /^node_\d+$/.test(r.name) ? r.op : r.name, x + 4, y + Math.min(h / 2, 30), w - 8);
      }
    }
    c.globalAlpha = 1;
    if (hovered?.buffer !== index) return;
    for (const r of mine) {
      if (r !== hovered && !hovered.related.has(r.name)) continue;
      const [x, y, w, h] = box(r);
      c.strokeStyle = colour("text");
      c.lineWidth = r === hovered ? 2 : 1;
      c.setLineDash(r === hovered ? [] : [3, 2]);
      c.strokeRect(x - .5, y - .5, w + 1, h + 1);
      c.setLineDash([]);
    }
  }

  function drawAxes(c) {
    const right = canvas.clientWidth - view.right;
    buffer.chunks.forEach((chunk, i) => {
      const y0 = tops[i], y1 = y0 + chunk.peak * perByte;
      c.strokeStyle = colour("line");
      c.lineWidth = 1;
      c.strokeRect(view.left - .5, y0 - .5, right - view.left + 1, y1 - y0 + 1);
      const step = niceStep(chunk.peak, (y1 - y0) / 34);
      c.textAlign = "right";
      for (let at = 0; at < chunk.peak; at += step) {
        const y = y0 + at * perByte;
        if (y1 - y < 15) break;
        c.strokeStyle = colour("grid");
        if (at) { c.beginPath(); c.moveTo(view.left, y); c.lineTo(right, y); c.stroke(); }
        c.fillStyle = colour("faint");
        c.fillText(at ? bytesText(at) : (buffer.chunks.length > 1 ? "chunk " + i : "0"), view.left - 7, y + (at ? 0 : 4));
      }
      c.textAlign = "left";
    });
  }

  function drawPeaks(c) {
    const right = canvas.clientWidth - view.right;
    buffer.chunks.forEach((chunk, i) => {
      const y = tops[i] + chunk.peak * perByte;
      c.strokeStyle = c.fillStyle = colour("f-copy");
      c.lineWidth = 1.5;
      c.setLineDash([6, 3]);
      c.beginPath(); c.moveTo(view.left, y + .5); c.lineTo(right, y + .5); c.stroke();
      c.setLineDash([]);
      c.textAlign = "right";
      c.font = "600 11px system-ui, sans-serif";
      c.fillText(bytesText(chunk.peak), view.left - 7, y - 1);
      c.font = "11px system-ui, sans-serif";
      c.textAlign = "left";
    });
  }

  function drawUsage(c) {
    const y1 = bottom + 10 + USAGE, right = canvas.clientWidth - view.right;
    c.fillStyle = colour("faint");
    c.textAlign = "right";
    c.fillText("in use", view.left - 7, y1 - USAGE / 2);
    c.textAlign = "left";
    c.save();
    c.beginPath(); c.rect(view.left, y1 - USAGE, right - view.left, USAGE); c.clip();
    c.beginPath();
    c.moveTo(view.px(canvas, 0), y1);
    buffer.usage.forEach((n, i) => {
      const y = y1 - n / Math.max(buffer.peak, 1) * (USAGE - 2);
      c.lineTo(view.px(canvas, i), y); c.lineTo(view.px(canvas, i + 1), y);
    });
    c.lineTo(view.px(canvas, data.n_steps), y1);
    c.closePath();
    c.fillStyle = colour("accent"); c.globalAlpha = .16; c.fill();
    c.globalAlpha = .8; c.strokeStyle = colour("accent"); c.lineWidth = 1; c.stroke();
    c.restore();
    c.globalAlpha = 1;
    drawSteps(c, canvas, y1 + 10);
  }

  redraws.push(() => {
    const c = prepare(canvas, height);
    c.fillStyle = colour("plot");
    c.fillRect(view.left, TOP, canvas.clientWidth - view.left - view.right, plot);
    drawLayers(c, canvas, TOP, bottom, true);
    drawAxes(c);
    drawRects(c);
    drawPeaks(c);
    drawUsage(c);
    drawCursor(c, canvas, TOP, bottom + 10 + USAGE);
  });

  function find(x, y) {
    const step = Math.floor(view.at(canvas, x));
    let best = null;
    for (const r of mine) {
      const y0 = tops[r.chunk] + r.offset * perByte, y1 = y0 + Math.max(r.size * perByte, 1);
      if (y >= y0 && y < y1 && step >= r.start && step <= r.end) best = r;
    }
    return best;
  }

  hoverable(canvas, (e) => {
    const r = find(e.offsetX, e.offsetY);
    if (r !== hovered) { hovered = r; redraw(); }
    if (!r) { hideTip(); return; }
    const place = (buffer.chunks.length > 1 ? `chunk ${r.chunk}, ` : "") + `${r.offset} – ${r.offset + r.size}`;
    const padded = r.size > r.nbytes ? ` (${bytesText(r.size)} planned)` : "";
    showTip(e, r.name, [
      ["op", r.op === "NONE" ? r.kind : r.op], ["shape", `${r.type} [${shape(r.ne)}]`], ["size", bytesText(r.nbytes) + padded],
      ["lives", stepText(r)], ["bytes", place],
      ["took over", r.inplace ? r.inplace + " (in place)" : ""], ["memory was", r.reused.join(", ")],
    ]);
  });
}

function drawSteps(c, canvas, y) {
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].find((s) => s * view.scale(canvas) > 60) ?? 10000;
  c.fillStyle = colour("faint");
  c.textAlign = "center";
  for (let at = Math.ceil(view.x0 / step) * step; at <= view.x1; at += step) c.fillText("#" + at, view.px(canvas, at), y);
  c.textAlign = "left";
}

// Cursor, hover and arrow keys of a map.
function hoverable(canvas, onMove) {
  view.attach(canvas);
  canvas.addEventListener("pointermove", (e) => {
    const step = Math.floor(view.at(canvas, e.offsetX));
    setCursor(step >= 0 && step < data.n_steps && e.offsetX >= view.left ? step : null);
    onMove(e);
  });
  canvas.addEventListener("pointerleave", () => { hovered = null; hideTip(); setCursor(null); });
  canvas.addEventListener("keydown", (e) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (!by) return;
    e.preventDefault();
    const step = Math.min(Math.max((view.cursor ?? Math.floor(view.x0) - by) + by, 0), data.n_steps - 1);
    if (step < view.x0 || step >= view.x1) view.show(view.x0 + by * (view.x1 - view.x0) / 2, view.x1 + by * (view.x1 - view.x0) / 2);
    setCursor(step);
  });
}

// ---- splits ------------------------------------------------------------------------------------

const LANE = 40, LANE_GAP = 34, CAUSE = 16;

function splitPanel() {
  const canvas = $("splits"), lanes = backends.map((_, i) => i);
  const laneTop = (b) => 40 + b * (LANE + LANE_GAP);
  const lanesEnd = laneTop(lanes.length - 1) + LANE, causeTop = lanesEnd + 16, height = causeTop + CAUSE + AXIS + 4;

  function drawLanes(c) {
    const right = canvas.clientWidth - view.right;
    for (const b of lanes) {
      c.fillStyle = colour("plot");
      c.fillRect(view.left, laneTop(b), right - view.left, LANE);
      c.fillStyle = colour("soft");
      c.textAlign = "right";
      textRight(c, backends[b].name, laneTop(b) + LANE / 2);
    }
    c.fillStyle = colour("faint");
    textRight(c, "cause", causeTop + CAUSE / 2);
    c.textAlign = "left";
  }

  function textRight(c, text, y) { c.fillText(text.length > 11 ? text.slice(0, 10) + "…" : text, view.left - 7, y); }

  function drawNodes(c) {
    const w = view.scale(canvas), right = canvas.clientWidth - view.right, gap = w > 4 ? .8 : 0;
    for (const n of nodes) {
      const x = view.px(canvas, n.step);
      if (x + w < view.left || x > right) continue;
      const l = Math.max(x, view.left), r = Math.min(x + w, right) - gap;
      c.fillStyle = backendColour(n.backend);
      c.globalAlpha = n.is_view ? .28 : .92;
      c.fillRect(l, laneTop(n.backend), Math.max(r - l, .5), LANE);
      c.globalAlpha = n.is_view ? .35 : 1;
      c.fillStyle = colour("c-" + n.cause_class);
      c.fillRect(l, causeTop, Math.max(r - l, .5), CAUSE);
      if (w > 34) { c.globalAlpha = 1; c.fillStyle = n.is_view ? colour("text") : "#fff"; textIn(c, n.op, l + 3, laneTop(n.backend) + 13, w - 6); textIn(c, n.name, l + 3, laneTop(n.backend) + 27, w - 6); }
    }
    c.globalAlpha = 1;
  }

  function drawSplits(c) {
    const right = canvas.clientWidth - view.right;
    for (const s of data.splits) {
      const x0 = view.px(canvas, s.start), x1 = view.px(canvas, s.end);
      if (x1 < view.left || x0 > right) continue;
      c.strokeStyle = colour("text");
      c.globalAlpha = .5;
      c.lineWidth = 1;
      if (s.start && x0 >= view.left) { c.beginPath(); c.moveTo(x0, 26); c.lineTo(x0, causeTop + CAUSE); c.stroke(); }
      c.globalAlpha = 1;
      const l = Math.max(x0, view.left), w = Math.min(x1, right) - l;
      c.fillStyle = colour("soft");
      if (w > 50) textIn(c, `split ${s.index}: ${plural(s.end - s.start, "node")}`, l + 5, 12, w - 10);
      if (w > 50 && s.n_copies) { c.fillStyle = colour("f-copy"); textIn(c, `${plural(s.n_copies, "copy", "copies")}, ${bytesText(s.copied)}`, l + 5, 27, w - 10); }
    }
  }

  // One arrow per copy, fanned out to the right of the split they are for; bytes where there is room.
  const fan = () => Math.min(Math.max(view.scale(canvas) * 2, 9), 58);
  const arrowX = (k) => view.px(canvas, k.step) + 5 + k.fan * fan();

  function drawCopies(c) {
    const right = canvas.clientWidth - view.right;
    for (const k of data.copies) {
      const down = k.dst > k.src;
      const x1 = arrowX(k), x0 = k.made_at >= 0 ? view.px(canvas, k.made_at + .5) : x1 - 1;
      if (x1 < view.left || x1 > right + 60) continue;
      const y0 = laneTop(k.src) + (down ? LANE : 0), y1 = laneTop(k.dst) + (down ? 0 : LANE);
      c.strokeStyle = c.fillStyle = colour("f-copy");
      c.globalAlpha = hovered && hovered !== k ? .3 : .9;
      arrow(c, Math.max(x0, view.left), y0, x1, y1, (hovered === k ? 1.5 : 0) + Math.min(1 + Math.log2(1 + k.nbytes / 4096) * .35, 5));
      if (fan() > 44) c.fillText(bytesText(k.nbytes), x1 + 5, (y1 + (down ? -1 : 1) * LANE_GAP / 2));
    }
    c.globalAlpha = 1;
  }

  redraws.push(() => {
    const c = prepare(canvas, height);
    drawLanes(c);
    drawLayers(c, canvas, causeTop + CAUSE, causeTop + CAUSE, false);
    drawNodes(c);
    drawSplits(c);
    drawCopies(c);
    drawSteps(c, canvas, causeTop + CAUSE + 11);
    drawCursor(c, canvas, 34, causeTop + CAUSE);
  });

  function copyAt(x, y) {
    for (const k of data.copies) {
      const x1 = arrowX(k);
      const a = Math.min(laneTop(k.src), laneTop(k.dst)) + LANE, b = Math.max(laneTop(k.src), laneTop(k.dst));
      if (Math.abs(x - x1) < 5 && y > a && y < b) return k;
    }
    return null;
  }

  hoverable(canvas, (e) => {
    const k = copyAt(e.offsetX, e.offsetY);
    if (k !== hovered) { hovered = k; redraw(); }
    if (k) {
      showTip(e, k.name, [["copied", `${backends[k.src].name} → ${backends[k.dst].name}`], ["size", bytesText(k.nbytes)], ["for", `split ${k.split}, before #${k.step}`],
        ["made by", k.made_at >= 0 ? "#" + k.made_at : "written before the run"]]);
      return;
    }
    const n = nodes[view.cursor];
    if (!n || e.offsetY < 34) { hideTip(); return; }
    showTip(e, `#${n.step} ${n.name}`, [["op", n.op + (n.is_view ? " (no work)" : "")], ["shape", `${n.type} [${shape(n.ne)}]`], ["size", bytesText(n.nbytes)], ["backend", `${backends[n.backend].name}, split ${n.split}`],
      ["cause", `${n.cause}: ${n.why}`], ["not better", n.left], ["reads", n.sources.join(", ")]]);
  });
}

for (const r of rects) r.related = new Set([...r.reused, r.inplace].filter(Boolean));
data.buffers.forEach((b, i) => { if ($("memory-" + i)) memoryPanel(i); });
splitPanel();
tell(null);
redraw();
