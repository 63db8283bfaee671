// Maps of a page: cells on canvas, a slider over windows, a table of the busiest cells.
// The data is in the page (#data) or at its data-src. No library, nothing from a network.
"use strict";
(async () => {
const $ = id => document.getElementById(id);
const source = $("data").dataset.src;
const data = source ? await (await fetch(source)).json() : JSON.parse($("data").textContent);
for (const map of data.maps) {
  for (const name of ["share", "low", "high", "estimate"]) map[name] = map[name].map(count => count * data.unit);
  map.visible = new Set(map.visible);
}
const moved = Boolean(data.difference);  // maps of changes: shares are differences, with a sign
const isBare = shade => !moved && shade === 0;  // nothing there; of changes 0 is the most less
const slider = $("time"), sure = $("sure"), of = $("of"), tip = $("tip");
const COLOURS = ["ink", "faint", "paper", "line", "land", "water", "coast", "base", "mark"];
const FONT = "system-ui, sans-serif", UNDER = 34;  // pixels below the cells, for the ruler
const NONE_TOLD = "No cell is told apart from zero";
const noneTold = !moved && data.maps.every(map => !map.visible.size);

const make = (name, text) => Object.assign(document.createElement(name), { textContent: text });
const percent = share => {  // as decoder.results.warnings.percent
  const size = Math.abs(share);
  if (size < 5e-12) return "0 %";
  const tenths = size >= .995 ? 0 : size >= .095 ? 1 : size >= .0095 ? 2 : 3;
  return (100 * share).toFixed(size < .00095 ? 1 - Math.floor(Math.log10(100 * size)) : tenths) + " %";
};
const brief = share => percent(share).replace(/(\.\d*?)0+ %/, "$1 %").replace(". %", " %");
const points = share => (share > 0 ? "+" : "") + percent(share).replace(" %", "");
const amount = share => moved ? points(share) + " points" : percent(share);
const span = (low, high) => moved ? points(low) + " to " + points(high) + " points" : percent(low).replace(" %", "") + " to " + percent(high);
const outside = map => map.other + (map.no_data ?? 0);  // of the cells: reserved values
const inBox = map => Math.max(1 - outside(map), 1e-9);
const ratio = map => of.value === "box" ? 1 / inBox(map) : 1;

// Places: Mercator, so that shapes are true.
const mercator = lat => Math.log(Math.tan(Math.PI / 4 + Math.max(-85, Math.min(85, lat)) * Math.PI / 360)) * 180 / Math.PI;
const latitude = y => Math.atan(Math.sinh(y * Math.PI / 180)) * 180 / Math.PI;
const flat = line => line.map(([x, y]) => [x, mercator(y)]);
const rings = data.cells.map(flat), spots = flat(data.points), around = data.around, base = data.base;
for (const name of ["land", "lakes", "coast", "borders", "rivers"]) around[name] = around[name].map(flat);
base.lines = base.lines.map(flat);
base.areas = base.areas.map(([name, parts]) => [name, parts.map(flat)]);
const labels = [
  ...around.cities.map(([name, x, y]) => [name, x, mercator(y), true]),
  ...base.points.map(([name, [x, y]]) => [name, x, mercator(y), false]),
];
let west = Infinity, east = -Infinity, south = Infinity, north = -Infinity;
for (const ring of rings) for (const [x, y] of ring) {
  west = Math.min(west, x); east = Math.max(east, x);
  south = Math.min(south, y); north = Math.max(north, y);
}
const centres = rings.map(ring => [0, 1].map(axis => ring.reduce((sum, corner) => sum + corner[axis], 0) / ring.length));
const key = ([x, y]) => Math.round(x * 1e4) + "," + Math.round(y * 1e4);
// Edges of cells by number: neighbours share one, which is then no border.
const edgeNumbers = new Map(), edgeEnds = [];
const edges = rings.map(ring => ring.map((a, i) => {
  const b = ring[(i + 1) % ring.length], ka = key(a), kb = key(b), name = ka < kb ? ka + " " + kb : kb + " " + ka;
  if (!edgeNumbers.has(name)) { edgeNumbers.set(name, edgeEnds.length); edgeEnds.push([a, b]); }
  return edgeNumbers.get(name);
}));

let theme, shades;
function readColours() {
  const style = getComputedStyle(document.documentElement), value = name => style.getPropertyValue("--" + name).trim();
  theme = Object.fromEntries(COLOURS.map(name => [name, value(name)]));
  const stops = value(moved ? "turn" : "stops").split(" ").map(text => [1, 3, 5].map(i => parseInt(text.slice(i, i + 2), 16)));
  shades = Array.from({ length: 256 }, (_, step) => {
    const at = step / 255 * (stops.length - 1), i = Math.min(stops.length - 2, Math.floor(at));
    return "rgb(" + stops[i].map((a, c) => Math.round(a + (stops[i + 1][c] - a) * (at - i))) + ")";
  });
}

// What is looked at: window, shares of what, told cells only. It is kept in the address.
const windows = [...new Set(data.maps.map(map => map.window))], slots = [...new Set(data.maps.map(map => map.slot))];
const known = new Map(data.maps.map(map => [map.slot + "\n" + map.window, map]));
const asked = new URLSearchParams(location.hash.slice(1));
slider.max = windows.length - 1;
slider.value = windows.indexOf(windows.includes(asked.get("window")) ? asked.get("window") : data.first);
if (asked.get("of") === "box") of.value = "box";
sure.checked = asked.has("told");
$("play").hidden = slider.hidden = windows.length < 2;
function remember() {
  const view = new URLSearchParams();
  if (windows.length > 1) view.set("window", windows[slider.value]);
  if (of.value === "box") view.set("of", "box");
  if (sure.checked) view.set("told", "1");
  history.replaceState(null, "", "#" + view);
}

const panels = slots.map(slot => {
  const figure = document.createElement("figure"), caption = document.createElement("figcaption"), canvas = document.createElement("canvas");
  figure.append(caption, canvas);
  $("maps").append(figure);
  const panel = { slot, canvas, caption, pen: canvas.getContext("2d"), at: -1 };
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "img");
  canvas.addEventListener("keydown", event => step(panel, event));
  canvas.addEventListener("blur", () => choose(panel, -1));
  for (const name of ["pointerdown", "pointermove"]) canvas.addEventListener(name, event => hover(panel, event));
  canvas.addEventListener("pointerleave", () => choose(panel, -1));
  return panel;
});
let focused = panels[0];

// The box fits the canvas; land and water fill what is left of it. Paths are made once a size.
function fit(panel) {
  const pixels = Math.max(1, window.devicePixelRatio || 1), wide = panel.canvas.parentNode.clientWidth - 2;
  const shape = (north - south) / (east - west || 1);
  const room = Math.max(300, innerHeight - panels[0].canvas.getBoundingClientRect().top - scrollY - 12);
  const high = Math.round(Math.max(280, Math.min(wide * Math.max(shape * 1.06, panels.length > 1 ? 1.3 : 1) + UNDER, room)));
  if (panel.wide === wide && panel.high === high && panel.pixels === pixels) return;
  panel.canvas.width = Math.round(wide * pixels);
  panel.canvas.height = Math.round(high * pixels);
  panel.canvas.style.height = high + "px";
  const zoom = Math.min(wide * .97 / (east - west || 1), (high - UNDER) * .97 / (north - south || 1));
  const x = (west + east) / 2, y = (south + north) / 2, middle = (high - UNDER) / 2;
  Object.assign(panel, {
    pixels, wide, high, zoom,
    project: ([a, b]) => [wide / 2 + (a - x) * zoom, middle - (b - y) * zoom],
    back: ([a, b]) => [x + (a - wide / 2) / zoom, y - (b - middle) / zoom],
  });
  panel.cells = rings.map(ring => outline(panel, ring));
  panel.paths = { lines: joined(panel, base.lines), areas: joined(panel, base.areas.flatMap(([, parts]) => parts)) };
  for (const name of ["land", "lakes", "coast", "borders", "rivers"]) panel.paths[name] = joined(panel, around[name]);
  panel.background = ground(panel);
}
function trace(panel, line, path = new Path2D()) {
  line.forEach((corner, i) => { const [x, y] = panel.project(corner); i ? path.lineTo(x, y) : path.moveTo(x, y); });
  return path;
}
function outline(panel, ring) { const path = trace(panel, ring); path.closePath(); return path; }
function joined(panel, many) { const path = new Path2D(); for (const line of many) trace(panel, line, path); return path; }
function ground(panel) {
  const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
  canvas.width = panel.canvas.width; canvas.height = panel.canvas.height;
  pen.setTransform(panel.pixels, 0, 0, panel.pixels, 0, 0);
  pen.fillStyle = theme.water; pen.fillRect(0, 0, panel.wide, panel.high);
  pen.fillStyle = theme.land; pen.fill(panel.paths.land, "evenodd");
  pen.fillStyle = theme.water; pen.fill(panel.paths.lakes, "evenodd");
  return canvas;
}

function drawPanel(panel) {
  const map = panel.map = known.get(panel.slot + "\n" + windows[slider.value]), pen = panel.pen;
  caption(panel, map);
  fit(panel);
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.drawImage(panel.background, 0, 0);
  pen.setTransform(panel.pixels, 0, 0, panel.pixels, 0, 0);
  pen.lineJoin = "round";
  if (map) drawCells(panel, map, pen);
  const { paths } = panel;
  stroke(panel, paths.rivers, theme.coast, .8, .7);
  stroke(panel, paths.coast, theme.coast, 1.2, 1);
  stroke(panel, paths.lakes, theme.coast, 1, 1);
  stroke(panel, paths.borders, theme.base, 1.2, 1, [5, 3]);
  stroke(panel, paths.lines, theme.base, 1, .75);
  stroke(panel, paths.areas, theme.base, 1.2, .9);
  if (map) drawTold(panel, map, pen);
  pen.strokeStyle = theme.faint; pen.lineWidth = 1; pen.setLineDash([2, 4]);
  pen.strokeRect(...panel.project([west, north]), (east - west) * panel.zoom, (north - south) * panel.zoom);
  pen.setLineDash([]);
  for (const spot of spots) dot(pen, panel.project(spot));
  names(panel, pen);
  if (map && !moved && !map.visible.size) haloed(pen, NONE_TOLD, panel.wide / 2, (panel.high - UNDER) / 2, "600 15px " + FONT, "center");
  ruler(panel, pen);
}
function haloed(pen, text, x, y, font, align) {
  Object.assign(pen, { font, textAlign: align, textBaseline: "middle", strokeStyle: theme.paper, lineWidth: 4, fillStyle: theme.ink });
  pen.strokeText(text, x, y); pen.fillText(text, x, y);
}
function dot(pen, [x, y]) {
  pen.beginPath(); pen.arc(x, y, 3.5, 0, 7);
  pen.fillStyle = theme.mark; pen.strokeStyle = theme.paper; pen.lineWidth = 1.2;
  pen.fill(); pen.stroke();
}
function caption(panel, map) {
  const title = make("b", panel.slot), when = windows[slider.value];
  if (!map) { panel.caption.replaceChildren(title, when + ": no reports in this window"); return; }
  const count = Object.keys(map.changed).length;
  const told = moved ? when + ": " + map.before.toLocaleString("en") + " reports before, " + map.reports.toLocaleString("en") + " in this window; " +
    map.visible.size + " of " + data.cells.length.toLocaleString("en") + " cells changed" : when + ": " + map.reports.toLocaleString("en") + " reports, " + percent(1 - outside(map)) + " in the box, other " + percent(map.other) +
    (map.no_data === undefined ? "" : ", no data " + percent(map.no_data)) +
    (map.unlisted ? "; in cells not shown " + percent(map.unlisted) : "") +
    "; " + map.visible.size + " of " + data.cells.length.toLocaleString("en") + " cells told apart from zero" +
    (count ? "; " + count + " changed from the other windows (▲ more, ▼ less)" : "") +
    (map.source ? "; the map is " + map.source : "");
  panel.caption.replaceChildren(title, told);
  panel.canvas.setAttribute("aria-label", panel.slot + ", " + told);
}
// Cells of one shade are one path: few strokes, whatever the number of cells.
function drawCells(panel, map, pen) {
  const shaded = new Map();
  map.shade.forEach((shade, i) => {
    if (isBare(shade) || (sure.checked && !map.visible.has(i))) return;
    if (!shaded.has(shade)) shaded.set(shade, new Path2D());
    shaded.get(shade).addPath(panel.cells[i]);
  });
  pen.lineWidth = .6;
  for (const [shade, path] of shaded) { pen.fillStyle = pen.strokeStyle = shades[shade]; pen.fill(path); pen.stroke(path); }
}
function drawTold(panel, map, pen) {
  const border = new Uint8Array(edgeEnds.length), path = new Path2D();
  for (const i of map.visible) for (const number of edges[i]) border[number] ^= 1;
  border.forEach((drawn, number) => {
    if (!drawn) return;
    const [[ax, ay], [bx, by]] = edgeEnds[number].map(panel.project);
    path.moveTo(ax, ay); path.lineTo(bx, by);
  });
  pen.strokeStyle = theme.ink; pen.lineWidth = 1.4; pen.stroke(path);
  pen.font = "bold 12px " + FONT; pen.textAlign = "center"; pen.textBaseline = "middle";
  for (const [i, [change]] of Object.entries(map.changed)) {
    const [x, y] = panel.project(centres[i]), mark = change > 0 ? "▲" : "▼";
    pen.strokeStyle = theme.paper; pen.lineWidth = 3; pen.strokeText(mark, x, y);
    pen.fillStyle = theme.mark; pen.fillText(mark, x, y);
  }
  if (panel.at >= 0) { pen.strokeStyle = theme.mark; pen.lineWidth = 3; pen.stroke(panel.cells[panel.at]); }
}
function stroke(panel, path, colour, width, alpha, dash = []) {
  const pen = panel.pen;
  pen.save();
  pen.strokeStyle = colour; pen.lineWidth = width; pen.globalAlpha = alpha; pen.setLineDash(dash);
  pen.stroke(path);
  pen.restore();
}
function names(panel, pen) {
  const taken = [[0, panel.high - UNDER, panel.wide / 4 + 60, UNDER]];
  for (const [name, x, y, city] of labels) {
    const [a, b] = panel.project([x, y]);
    if (a < 0 || b < 0 || a > panel.wide || b > panel.high) continue;
    pen.fillStyle = city ? theme.ink : theme.base;
    pen.beginPath(); pen.arc(a, b, city ? 3 : 2, 0, 7); pen.fill();
    pen.font = (city ? "600 14px " : "12px ") + FONT; pen.textAlign = "left"; pen.textBaseline = "middle";
    const wide = pen.measureText(name).width, left = a + 7 + wide > panel.wide ? a - 7 - wide : a + 7;
    const box = [left - 2, b - 9, wide + 4, 18];
    if (!name || taken.some(([p, q, w, h]) => box[0] < p + w && p < box[0] + box[2] && box[1] < q + h && q < box[1] + box[3])) continue;
    taken.push(box);
    pen.strokeStyle = theme.paper; pen.lineWidth = 3.5; pen.strokeText(name, left, b);
    pen.fillStyle = theme.ink; pen.fillText(name, left, b);
  }
}
const round = (length, parts) => parts.map(part => part * Math.pow(10, Math.floor(Math.log10(length)))).find(nice => nice <= length);
function ruler(panel, pen) {
  const pixel = 111.32 * Math.cos(latitude((south + north) / 2) * Math.PI / 180) / panel.zoom;
  const km = round(pixel * Math.min(150, panel.wide / 4), [5, 2, 1]), length = km / pixel;
  const text = km < 1 ? Math.round(km * 1000) + " m" : km + " km", y = panel.high - 10;
  haloed(pen, text, 10, y - 11, "13px " + FONT, "left");
  pen.strokeRect(10, y, length, 3); pen.fillRect(10, y, length, 3);
}

function scale() {
  const canvas = $("scale"), wide = canvas.clientWidth, pixels = Math.max(1, window.devicePixelRatio || 1), pen = canvas.getContext("2d");
  canvas.width = wide * pixels; canvas.height = 84 * pixels;
  pen.scale(pixels, pixels);
  if (moved) { turningScale(canvas, pen, wide); return; }
  const { told_from: from } = data.scale;
  const left = 12, width = wide - 40, times = ratio(focused.map || data.maps[0]), place = share => left + Math.sqrt(share / data.top) * width;
  pen.font = "12px " + FONT; pen.textBaseline = "alphabetic"; pen.fillStyle = theme.ink;
  if (noneTold) {
    pen.fillText(NONE_TOLD, left, 12); faintScale(pen, left, 22);
    canvas.setAttribute("aria-label", NONE_TOLD);
    return;
  }
  pen.fillText("Share of " + (of.value === "box" ? "answers in the box" : "all answers") + ", told apart from zero", left, 12);
  for (let i = 0; i < width; i++) { pen.fillStyle = shades[Math.round(255 * (from + (1 - from) * i / width))]; pen.fillRect(left + i, 18, 1.5, 14); }
  pen.strokeStyle = theme.ink; pen.lineWidth = 1.4; pen.strokeRect(left, 18, width, 14);
  pen.fillStyle = theme.ink; pen.textAlign = "center";
  const top = data.top * times, unit = Math.pow(10, Math.floor(Math.log10(top))), ticks = [0, .1, .2, .5, 1, 2, 5].map(part => part * unit).filter(share => share < .8 * top);
  let free = -Infinity;
  for (const share of [...ticks, top]) {
    const x = place(share / times), text = brief(Number(share.toPrecision(2))), half = pen.measureText(text).width / 2;
    if (x - half < free) continue;
    pen.fillRect(x, 32, 1, 4); pen.fillText(text, Math.max(half, Math.min(x, wide - half)), 48); free = x + half + 6;
  }
  pen.textAlign = "left";
  faintScale(pen, left, 60);
  canvas.setAttribute("aria-label", "Share of answers in a cell, from faint to strong: 0 to " + percent(top) + "; the faintest are not distinguishable from zero");
}
function faintScale(pen, left, y) {
  const { untold_to: faint, untold_steps: steps } = data.scale;
  pen.textAlign = "left";
  for (let i = 0; i <= steps; i++) { pen.fillStyle = shades[Math.round(255 * faint * i / steps)]; pen.fillRect(left + i * 18, y, 18, 14); }
  pen.strokeStyle = theme.line; pen.lineWidth = 1; pen.strokeRect(left, y, 18 * (steps + 1), 14);
  pen.fillStyle = theme.ink; pen.fillText("paler: not distinguishable from zero", left + 18 * (steps + 1) + 8, y + 12);
}
function turningScale(canvas, pen, wide) {
  const left = 12, width = wide - 24, top = percent(data.top).replace(" %", "");
  pen.font = "12px " + FONT; pen.fillStyle = theme.ink;
  pen.fillText("Change of the share of all answers, points", left, 12);
  for (let i = 0; i < width; i++) { pen.fillStyle = shades[Math.round(255 * i / width)]; pen.fillRect(left + i, 18, 1.5, 14); }
  pen.strokeStyle = theme.ink; pen.lineWidth = 1.4; pen.strokeRect(left, 18, width, 14);
  pen.fillStyle = theme.ink; pen.fillText("-" + top, left, 48);
  pen.textAlign = "center"; pen.fillText("0", left + width / 2, 48);
  pen.textAlign = "right"; pen.fillText("+" + top, left + width, 48);
  [.4, .45, .5, .55, .6].forEach((part, i) => { pen.fillStyle = shades[Math.round(255 * part)]; pen.fillRect(left + i * 18, 60, 18, 14); });
  pen.strokeStyle = theme.line; pen.lineWidth = 1; pen.strokeRect(left, 60, 90, 14);
  pen.fillStyle = theme.ink; pen.textAlign = "left"; pen.fillText("not outlined: not told from no change", left + 98, 72);
  canvas.setAttribute("aria-label", "Change of the share of answers in a cell, from -" + top + " to +" + top + " points; outlined cells changed");
}
function table() {
  const map = focused.map, body = $("busiest");
  $("which").textContent = (moved ? "Largest changes" : "Busiest cells") + (slots.length > 1 ? ": " + focused.slot : "");
  $("floor").textContent = map && !moved ? (slots.length > 1 ? focused.slot + ": a" : "A") + " share of " + percent(map.floor) + " is told from zero 8 times in 10, a smaller one less often." : "";
  const order = map ? map.order ??= map.share.map((_, i) => i).sort((a, b) => map.visible.has(b) - map.visible.has(a) || Math.abs(map.share[b]) - Math.abs(map.share[a])).slice(0, 10) : [];
  body.replaceChildren(...order.map(i => tableRow(map, i)));
}
function tableRow(map, i) {
  const row = document.createElement("tr"), head = make("th", ""), button = make("button", data.called[i] || data.names[i]);
  head.scope = "row"; button.type = "button"; button.className = "plain";
  head.append(button);
  if (data.called[i]) head.append(make("small", data.names[i]));
  if (!map.visible.has(i)) row.className = "unsure";
  row.append(head, make("td", amount(map.share[i])));
  if (!moved) row.append(make("td", percent(map.share[i] / inBox(map))));
  row.append(make("td", span(map.low[i], map.high[i])));
  button.addEventListener("click", () => { focused.canvas.scrollIntoView({ block: "nearest" }); show(focused, i); });
  button.addEventListener("blur", () => choose(focused, -1));
  return row;
}
function draw() {
  $("window").textContent = windows[slider.value];
  slider.setAttribute("aria-valuetext", windows[slider.value]);
  panels.forEach(drawPanel); table(); scale();
}

// A slider that is dragged sends more events than there are frames: each frame is drawn once.
let waiting = false;
function drawSoon() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); });
}

// Pointing at a cell, by pointer, keys or the table.
function inside(ring, x, y) {
  let odd = false;
  for (let i = 0, j = ring.length - 1; i < ring.length; j = i++) {
    const [xa, ya] = ring[i], [xb, yb] = ring[j];
    if ((ya > y) !== (yb > y) && x < (xb - xa) * (y - ya) / (yb - ya) + xa) odd = !odd;
  }
  return odd;
}
function hover(panel, event) {
  const box = panel.canvas.getBoundingClientRect(), [x, y] = panel.back([event.clientX - box.left, event.clientY - box.top]);
  choose(panel, panel.map ? rings.findIndex(ring => inside(ring, x, y)) : -1, event.clientX, event.clientY);
}
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
function step(panel, event) {
  const way = ARROWS[event.key];
  if (!way || !panel.map) return;
  event.preventDefault();
  let next = panel.map.share.indexOf(Math.max(...panel.map.share)), nearest = Infinity;
  if (panel.at >= 0) {
    next = panel.at;
    centres.forEach(([x, y], i) => {
      const dx = x - centres[panel.at][0], dy = y - centres[panel.at][1];
      const along = dx * way[0] + dy * way[1], aside = Math.abs(dx * way[1]) + Math.abs(dy * way[0]);
      if (along > 1e-9 && aside <= along && along + 2 * aside < nearest) { nearest = along + 2 * aside; next = i; }
    });
  }
  show(panel, next);
}
function show(panel, i) {
  const box = panel.canvas.getBoundingClientRect(), [x, y] = panel.project(centres[i]);
  choose(panel, i, box.left + x, box.top + y);
}
function choose(panel, i, x, y) {
  if (i >= 0 && focused !== panel) { focused = panel; table(); scale(); }
  if (panel.at !== i) { panel.at = i; drawPanel(panel); }
  tip.hidden = i < 0;
  if (i < 0) return;
  tip.textContent = described(panel.map, i);
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = Math.max(4, Math.min(y + 14, innerHeight - tip.offsetHeight - 8)) + "px";
}
function described(map, i) {
  if (moved) return (data.called[i] ? data.called[i] + ", " : "") + data.names[i] + "\n" + (map.visible.has(i) ? "" : "not told from no change: ") +
    amount(map.share[i]) + " of all\n" + brief(data.level) + " interval " + span(map.low[i], map.high[i]);
  const share = map.share[i], seen = map.visible.has(i), apart = seen && (share < map.low[i] || share > map.high[i]);
  return (data.called[i] ? data.called[i] + ", " : "") + data.names[i] + "\n" +
    (seen ? "" : "not distinguishable from zero, guess ") + percent(share) + " of all, " + percent(share / inBox(map)) + " of those in the box\n" +
    brief(data.level) + " interval of the cell alone " + span(map.low[i], map.high[i]) + " of all" +
    (apart ? "\nThe map, drawn towards other cells, lies outside it; the colour is the interval's nearest end." : "") +
    (map.changed[i] ? "\nChange from the other windows, among those in the box: " + span(map.changed[i][1], map.changed[i][2]) : "");
}

let playing = 0;
function play() {
  clearInterval(playing);
  if (playing) { playing = 0; $("play").textContent = "▶"; $("play").setAttribute("aria-label", "Play"); return; }
  if (slider.value === slider.max) slider.value = -1;
  playing = setInterval(() => { slider.value = Number(slider.value) + 1; draw(); if (slider.value === slider.max) { play(); remember(); } }, 500);
  $("play").textContent = "❚❚"; $("play").setAttribute("aria-label", "Pause");
}
function recolour() {
  readColours();
  for (const panel of panels) panel.wide = 0;
  draw();
}
$("play").addEventListener("click", play);
for (const one of [slider, sure, of]) { one.addEventListener("input", drawSoon); one.addEventListener("change", remember); }
addEventListener("resize", drawSoon);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; recolour(); });
addEventListener("afterprint", () => { delete document.documentElement.dataset.theme; recolour(); });
readColours();
draw();
})();
