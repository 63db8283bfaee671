// Maps of a page: cells, changes or flows on canvas, a slider over windows, a table of the largest.
// The data is in the page (#data) or at its data-src. No library, nothing from a network.
"use strict";
(async () => {
const $ = id => document.getElementById(id);
const source = $("data").dataset.src;
const data = source ? await (await fetch(source)).json() : JSON.parse($("data").textContent);
for (const map of data.maps) {
  for (const name of ["share", "low", "high", "estimate"]) map[name] = map[name].map(count => count * data.unit);
  map.detected = new Set(map.detected);
}
const moved = Boolean(data.difference);  // maps of changes: shares are differences, with a sign
const flows = Boolean(data.flows);  // maps of flows: marks are curves between cells, and rings
const isBare = shade => !moved && shade === 0;  // nothing there; of changes 0 is the most less
const slider = $("time"), sure = $("sure"), unsure = $("unsure"), of = $("of"), tip = $("tip");
const COLOURS = ["brand", "ink", "faint", "paper", "line", "land", "water", "coast", "base", "mark"];
const FONT = "system-ui, sans-serif", UNDER = 34;  // pixels below the cells, for the ruler
const NONE_DETECTED = `No ${flows ? "flow" : "cell"} is detected`;
const noneDetected = !moved && data.maps.every(map => !map.detected.size);

const make = (name, text) => Object.assign(document.createElement(name), { textContent: text });
const percent = share => {  // as decoder.tables.format.percent
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
const signed = part => points(part) + " %";
const signedSpan = (low, high) => points(low) + " to " + points(high) + " %";
const inBox = map => Math.max(1 - outside(map), 1e-9);
const isOfBox = () => of !== null && of.value === "box";
const ratio = map => isOfBox() ? 1 / inBox(map) : 1;

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
const centreOf = ring => [0, 1].map(axis => ring.reduce((sum, corner) => sum + corner[axis], 0) / ring.length);
const districts = (data.areas || []).map(parts => parts.map(flat));
const districtNames = districts.length ? data.maps.find(map => map.areas).areas.map(row => row.name) : [];
districts.forEach((parts, i) => labels.push([districtNames[i], ...centreOf(parts[0]), null]));
let west = Infinity, east = -Infinity, south = Infinity, north = -Infinity;
for (const ring of rings) for (const [x, y] of ring) {
  west = Math.min(west, x); east = Math.max(east, x);
  south = Math.min(south, y); north = Math.max(north, y);
}
const centres = rings.map(centreOf);
const key = ([x, y]) => Math.round(x * 1e4) + "," + Math.round(y * 1e4);
// Edges of cells by number: neighbours share one, which is then no border.
const edgeNumbers = new Map(), edgeEnds = [];
const edges = rings.map(ring => ring.map((a, i) => {
  const b = ring[(i + 1) % ring.length], ka = key(a), kb = key(b), name = ka < kb ? ka + " " + kb : kb + " " + ka;
  if (!edgeNumbers.has(name)) { edgeNumbers.set(name, edgeEnds.length); edgeEnds.push([a, b]); }
  return edgeNumbers.get(name);
}));

let theme, shades, widths;
function readColours() {
  const style = getComputedStyle(document.documentElement), value = name => style.getPropertyValue("--" + name).trim();
  theme = Object.fromEntries(COLOURS.map(name => [name, value(name)]));
  const ramp = name => {
    const stops = value(name).split(" ").map(text => [1, 3, 5].map(i => parseInt(text.slice(i, i + 2), 16)));
    return Array.from({ length: 256 }, (_, step) => {
      const at = step / 255 * (stops.length - 1), i = Math.min(stops.length - 2, Math.floor(at));
      return "rgb(" + stops[i].map((a, c) => Math.round(a + (stops[i + 1][c] - a) * (at - i))) + ")";
    });
  };
  shades = ramp(moved ? "turn" : "stops");
  widths = ramp("stops");
}

// What is looked at: base, window, shares of what, detected cells only. It is kept in the address.
const baseBox = data.bases ? $("base") : null, slots = [...new Set(data.maps.map(map => map.slot))];
const baseOf = map => baseBox === null || map.base === baseBox.value;
const known = new Map(data.maps.map(map => [map.slot + "\n" + map.window + "\n" + (baseBox === null ? "" : map.base), map]));
const mapOf = panel => known.get(panel.slot + "\n" + windows[slider.value] + "\n" + (baseBox === null ? "" : baseBox.value));
const asked = new URLSearchParams(location.hash.slice(1));
let windows = [];
function chooseBase(window) {  // the windows that are compared with it
  windows = [...new Set(data.maps.filter(baseOf).map(map => map.window))];
  slider.max = windows.length - 1;
  slider.value = windows.includes(window) ? windows.indexOf(window) : windows.length - 1;
  $("play").hidden = slider.hidden = windows.length < 2;
}
if (baseBox && (data.bases || []).includes(asked.get("base"))) baseBox.value = asked.get("base");
chooseBase(data.maps.some(map => baseOf(map) && map.window === asked.get("window")) ? asked.get("window") : data.first);
const isRelative = () => moved && of !== null && of.value === "percent";
if (moved && of && asked.get("of") === "percent") of.value = "percent";
if (of && asked.get("of") === "box") of.value = "box";
sure.checked = asked.has("detected");
unsure.checked = asked.has("width");
let picked = flows ? data.names.indexOf(asked.get("cell")) : -1;  // the cell whose flows stand out
function remember() {
  const shown = new URLSearchParams();
  if (windows.length > 1) shown.set("window", windows[slider.value]);
  if (baseBox && baseBox.selectedIndex > 0) shown.set("base", baseBox.value);
  if (isOfBox() || isRelative()) shown.set("of", of.value);
  if (sure.checked) shown.set("detected", "1");
  if (unsure.checked) shown.set("width", "1");
  if (picked >= 0) shown.set("cell", data.names[picked]);
  if (view.k !== 1 || view.x !== middleOf().x || view.y !== middleOf().y) shown.set("at", [view.x.toFixed(4), latitude(view.y).toFixed(4), view.k.toFixed(2)].join(","));
  history.replaceState(null, "", "#" + shown);
}

// In place of the picture that the page holds for readers without a script.
$("maps").replaceChildren();
$("controls").hidden = $("scale").hidden = false;
const panels = slots.map(slot => {
  const figure = document.createElement("figure"), caption = document.createElement("figcaption"), canvas = document.createElement("canvas");
  figure.append(caption, canvas);
  $("maps").append(figure);
  const panel = { slot, canvas, caption, pen: canvas.getContext("2d"), at: -1 };
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "img");
  canvas.addEventListener("keydown", event => step(panel, event));
  canvas.addEventListener("blur", () => choose(panel, -1));
  canvas.addEventListener("pointerdown", event => { press(panel, event); hover(panel, event); });
  canvas.addEventListener("pointermove", event => { if (!drag(panel, event)) hover(panel, event); });
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, release);
  canvas.addEventListener("pointerleave", () => choose(panel, -1));
  canvas.addEventListener("wheel", event => wheel(panel, event), { passive: false });
  return panel;
});
let focused = panels[0];

// The view, one for all slots: its centre in Mercator degrees and how many times it is enlarged.
const middleOf = () => ({ x: (west + east) / 2, y: (south + north) / 2, k: 1 });
const LEAST = .5, MOST = 60;
const view = middleOf();
const within = (value, low, high) => Math.max(low, Math.min(high, value));
function place(x, y, k) {
  Object.assign(view, { x: within(x, west, east), y: within(y, south, north), k: within(k, LEAST, MOST) });
  for (const panel of panels) panel.canvas.style.touchAction = view.k > 1 ? "none" : "pan-y";
}
function look(x, y, k) {
  place(x, y, k);
  tip.hidden = true;
  drawSoon();
}
function zoomBy(times, panel, at) {
  const [x, y] = at ? panel.back(at) : [view.x, view.y], k = within(view.k * times, LEAST, MOST), part = view.k / k;
  look(x + (view.x - x) * part, y + (view.y - y) * part, k);
}
function panBy(panel, dx, dy) { look(view.x - dx / panel.zoom / view.k, view.y + dy / panel.zoom / view.k, view.k); }
const seen = (asked.get("at") || "").split(",").map(Number);
if (seen.length === 3 && seen.every(Number.isFinite) && seen[2] > 0) place(seen[0], mercator(seen[1]), seen[2]);

// The box fits the canvas; land and water fill what is left of it. Paths are made once a size.
function fit(panel) {
  const pixels = Math.max(1, window.devicePixelRatio || 1), wide = panel.canvas.parentNode.clientWidth - 2;
  const shape = (north - south) / (east - west || 1);
  const room = Math.max(.72 * innerHeight, innerHeight - panels[0].canvas.getBoundingClientRect().top - scrollY - 12);
  const high = Math.round(Math.max(280, Math.min(wide * Math.max(shape * 1.06, panels.length > 1 ? 1.3 : 1) + UNDER, room)));
  if (panel.wide === wide && panel.high === high && panel.pixels === pixels) return;
  panel.canvas.width = Math.round(wide * pixels);
  panel.canvas.height = Math.round(high * pixels);
  panel.canvas.style.height = high + "px";
  const zoom = Math.min(wide * .97 / (east - west || 1), (high - UNDER) * .97 / (north - south || 1));
  const x = (west + east) / 2, y = (south + north) / 2, middle = (high - UNDER) / 2;
  Object.assign(panel, {
    pixels, wide, high, zoom, middle,
    flat: ([a, b]) => [wide / 2 + (a - x) * zoom, middle - (b - y) * zoom],
    project: ([a, b]) => [wide / 2 + (a - view.x) * zoom * view.k, middle - (b - view.y) * zoom * view.k],
    back: ([a, b]) => [view.x + (a - wide / 2) / zoom / view.k, view.y - (b - middle) / zoom / view.k],
    drawn: new Map(),
  });
  panel.cells = rings.map(ring => outline(panel, ring));
  panel.paths = { lines: joined(panel, base.lines), areas: joined(panel, base.areas.flatMap(([, parts]) => parts)), districts: joined(panel, districts.flat()) };
  for (const name of ["land", "lakes", "coast", "borders", "rivers"]) panel.paths[name] = joined(panel, around[name]);
}
// Paths are made for a map as large as its box; the pen enlarges them.
function enlarge(panel) {
  const [x, y] = panel.flat([view.x, view.y]), k = view.k * panel.pixels;
  panel.pen.setTransform(k, 0, 0, k, panel.wide / 2 * panel.pixels - k * x, panel.middle * panel.pixels - k * y);
}
function plain(panel) { panel.pen.setTransform(panel.pixels, 0, 0, panel.pixels, 0, 0); }
function trace(panel, line, path = new Path2D()) {
  line.forEach((corner, i) => { const [x, y] = panel.flat(corner); i ? path.lineTo(x, y) : path.moveTo(x, y); });
  return path;
}
function outline(panel, ring) { const path = trace(panel, ring); path.closePath(); return path; }
function joined(panel, many) { const path = new Path2D(); for (const line of many) trace(panel, line, path); return path; }
function ground(panel, pen) {
  pen.fillStyle = theme.water; pen.fillRect(0, 0, panel.wide, panel.high);
  enlarge(panel);
  pen.fillStyle = theme.land; pen.fill(panel.paths.land, "evenodd");
  pen.fillStyle = theme.water; pen.fill(panel.paths.lakes, "evenodd");
}

function drawPanel(panel) {
  const map = panel.map = mapOf(panel), pen = panel.pen;
  caption(panel, map);
  fit(panel);
  plain(panel);
  pen.lineJoin = "round";
  ground(panel, pen);
  if (map && !flows) drawCells(panel, map, pen);
  const { paths } = panel;
  stroke(panel, paths.rivers, theme.coast, .8, .7);
  stroke(panel, paths.coast, theme.coast, 1.2, 1);
  stroke(panel, paths.lakes, theme.coast, 1, 1);
  stroke(panel, paths.borders, theme.base, 1.2, 1, [5, 3]);
  stroke(panel, paths.lines, theme.base, 1, .75);
  stroke(panel, paths.areas, theme.base, 1.2, .9);
  stroke(panel, paths.districts, theme.ink, 2.4, .8, [7, 3]);
  if (flows) drawGrid(panel, pen);
  else if (map) drawTold(panel, map, pen);
  plain(panel);
  if (map) flows ? drawFlows(panel, map, pen) : marks(panel, map, pen);
  pen.strokeStyle = theme.faint; pen.lineWidth = 1; pen.setLineDash([2, 4]);
  pen.strokeRect(...panel.project([west, north]), (east - west) * panel.zoom * view.k, (north - south) * panel.zoom * view.k);
  pen.setLineDash([]);
  for (const spot of spots) dot(pen, panel.project(spot));
  names(panel, pen);
  if (map && !moved && !map.detected.size) haloed(pen, NONE_DETECTED, panel.wide / 2, (panel.high - UNDER) / 2, "600 15px " + FONT, "center");
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
  const text = flows ? when + ": " + map.reports.toLocaleString("en") + " reports; " + map.detected.size + " of " + map.ends.length.toLocaleString("en") + " drawn flows detected" : moved ? when + (map.base ? " against " + map.base : "") + ": " + map.before.toLocaleString("en") + " reports before, " + map.reports.toLocaleString("en") + " in this window; " +
    map.detected.size + " of " + data.cells.length.toLocaleString("en") + " cells changed" : when + ": " + map.reports.toLocaleString("en") + " reports, " + percent(1 - outside(map)) + " in the box, other " + percent(map.other) +
    (map.no_data === undefined ? "" : ", no data " + percent(map.no_data)) +
    (map.unlisted ? "; in cells not shown " + percent(map.unlisted) : "") +
    "; " + map.detected.size + " of " + data.cells.length.toLocaleString("en") + " cells detected" +
    (count ? "; " + count + " changed from the other windows (▲ more, ▼ less)" : "") +
    (map.source ? "; the map is " + map.source : "");
  panel.caption.replaceChildren(title, text);
  panel.canvas.setAttribute("aria-label", panel.slot + ", " + text);
}
// A flow is bent to the right of its way, so that two ways do not overlap: start, control, end.
const BEND = .16;  // of its length, as in map_picture.py
const stays = (map, i) => map.ends[i][0] === map.ends[i][1];
const isDrawn = (map, i) => map.detected.has(i) || !sure.checked;
const isAside = (map, i) => picked >= 0 && !map.ends[i].includes(picked);
function curve(map, i) {
  const [[xa, ya], [xb, yb]] = map.ends[i].map(cell => centres[cell]);
  return [[xa, ya], [(xa + xb) / 2 + BEND * (yb - ya), (ya + yb) / 2 - BEND * (xb - xa)], [xb, yb]];
}
function along([a, b, c], t) { return [0, 1].map(axis => (1 - t) ** 2 * a[axis] + 2 * t * (1 - t) * b[axis] + t * t * c[axis]); }
const spotOf = (map, i) => flows ? along(curve(map, i), .5) : centres[i];
function drawGrid(panel, pen) {
  pen.strokeStyle = theme.line; pen.lineWidth = .7 / view.k;
  for (const path of panel.cells) pen.stroke(path);
  if (picked >= 0) { pen.strokeStyle = theme.mark; pen.lineWidth = 2 / view.k; pen.stroke(panel.cells[picked]); }
}
function drawFlows(panel, map, pen) {
  map.painted ??= map.ends.map((_, i) => i).sort((a, b) => map.detected.has(a) - map.detected.has(b));
  for (const i of map.painted) if (isDrawn(map, i) && i !== panel.at) drawFlow(panel, map, i, pen);
  if (panel.at >= 0) drawFlow(panel, map, panel.at, pen);
  pen.globalAlpha = 1;
  pen.setLineDash([]);
}
function drawFlow(panel, map, i, pen) {
  const detected = map.detected.has(i), width = map.size[i];
  pen.globalAlpha = i === panel.at ? 1 : isAside(map, i) ? .1 : detected ? .85 : .35;
  pen.strokeStyle = pen.fillStyle = i === panel.at ? theme.mark : unsure.checked ? widths[Math.round(255 * widthShade(half(map, i) / widest))] : detected ? theme.brand : theme.faint;
  pen.setLineDash(detected ? [] : [3, 4]);
  const [a, b, c] = curve(map, i).map(panel.project);
  pen.beginPath();
  if (stays(map, i)) {
    pen.lineWidth = detected ? 2 : 1;
    pen.arc(...a, width, 0, 7); pen.stroke();
    if (detected) { pen.globalAlpha *= .15; pen.fill(); }
    return;
  }
  pen.lineWidth = width;
  pen.moveTo(...a);
  if (!detected) { pen.quadraticCurveTo(...b, ...c); pen.stroke(); return; }
  const length = Math.hypot(c[0] - b[0], c[1] - b[1]) || 1, way = [(c[0] - b[0]) / length, (c[1] - b[1]) / length];
  const head = Math.min(5 + 1.6 * width, Math.max(.4 * length, 4)), wing = .36 * head + width / 4;
  const neck = [c[0] - head * way[0], c[1] - head * way[1]];
  pen.quadraticCurveTo(...b, ...neck); pen.stroke();
  pen.beginPath(); pen.moveTo(...c);
  pen.lineTo(neck[0] - wing * way[1], neck[1] + wing * way[0]); pen.lineTo(neck[0] + wing * way[1], neck[1] - wing * way[0]);
  pen.fill();
}
const NEAR = 8, STEPS = 24;  // pixels to a flow that is pointed at
function flowAt(panel, map, at) {
  let best = -1, least = NEAR;
  map.ends.forEach((_, i) => {
    if (!isDrawn(map, i) || isAside(map, i)) return;
    const line = curve(map, i).map(panel.project), ring = stays(map, i);
    for (let step = 0; step <= (ring ? 0 : STEPS); step++) {
      const [x, y] = ring ? line[0] : along(line, step / STEPS);
      const apart = Math.hypot(x - at[0], y - at[1]) - (ring ? map.size[i] : map.size[i] / 2) + (map.detected.has(i) ? 0 : 1);
      if (apart < least) { least = apart; best = i; }
    }
  });
  return best;
}
// Cells of one shade are one path: few strokes, whatever the number of cells. Kept while one pans.
function pathsOf(panel, map) {
  const name = [map.slot, map.window, map.base, sure.checked, unsure.checked, isRelative()].join();
  if (!panel.drawn.has(name)) panel.drawn.set(name, { shaded: shaded(panel, map), border: border(panel, map) });
  return panel.drawn.get(name);
}
const half = (map, i) => (map.high[i] - map.low[i]) / 2;
const widest = Math.max(...data.maps.flatMap(map => map.share.map((_, i) => half(map, i))), 1e-12);
function shaded(panel, map) {
  const found = new Map();
  (isRelative() ? map.relative_shade : map.shade).forEach((own, i) => {
    const shade = unsure.checked ? Math.round(255 * Math.sqrt(half(map, i) / widest)) : own;
    if ((isBare(shade) && !unsure.checked) || (sure.checked && !map.detected.has(i))) return;
    if (!found.has(shade)) found.set(shade, new Path2D());
    found.get(shade).addPath(panel.cells[i]);
  });
  return found;
}
function border(panel, map) {
  const drawn = new Uint8Array(edgeEnds.length), detected = new Path2D(), undetected = new Path2D();
  for (const i of map.detected) for (const number of edges[i]) drawn[number] ^= 1;
  drawn.forEach((is, number) => {
    if (!is) return;
    const [[ax, ay], [bx, by]] = edgeEnds[number].map(panel.flat);
    detected.moveTo(ax, ay); detected.lineTo(bx, by);
  });
  if (unsure.checked) panel.cells.forEach((path, i) => { if (!map.detected.has(i)) undetected.addPath(path); });
  return { detected, undetected };
}
function drawCells(panel, map, pen) {
  pen.lineWidth = .6 / view.k;
  const colours = unsure.checked ? widths : shades;
  for (const [shade, path] of pathsOf(panel, map).shaded) { pen.fillStyle = pen.strokeStyle = colours[shade]; pen.fill(path); pen.stroke(path); }
  if (unsure.checked) hatch(panel, pathsOf(panel, map).border.undetected, pen);
}
function hatch(panel, path, pen) {  // what is not detected
  pen.save();
  pen.clip(path);
  plain(panel);
  pen.strokeStyle = theme.ink; pen.globalAlpha = .45; pen.lineWidth = 1;
  pen.beginPath();
  for (let x = -panel.high; x < panel.wide; x += 7) { pen.moveTo(x, panel.high); pen.lineTo(x + panel.high, 0); }
  pen.stroke();
  pen.restore();
}
function drawTold(panel, map, pen) {
  pen.strokeStyle = theme.ink; pen.lineWidth = 1.4 / view.k; pen.stroke(pathsOf(panel, map).border.detected);
  if (panel.at >= 0) { pen.strokeStyle = theme.mark; pen.lineWidth = 3 / view.k; pen.stroke(panel.cells[panel.at]); }
}
function marks(panel, map, pen) {
  pen.font = "bold 12px " + FONT; pen.textAlign = "center"; pen.textBaseline = "middle";
  for (const [i, [change]] of Object.entries(map.changed)) {
    const [x, y] = panel.project(centres[i]), mark = change > 0 ? "▲" : "▼";
    pen.strokeStyle = theme.paper; pen.lineWidth = 3; pen.strokeText(mark, x, y);
    pen.fillStyle = theme.mark; pen.fillText(mark, x, y);
  }
}
function stroke(panel, path, colour, width, alpha, dash = []) {
  const pen = panel.pen;
  pen.save();
  pen.strokeStyle = colour; pen.lineWidth = width / view.k; pen.globalAlpha = alpha; pen.setLineDash(dash.map(length => length / view.k));
  pen.stroke(path);
  pen.restore();
}
function names(panel, pen) {
  const taken = [[0, panel.high - UNDER, panel.wide / 4 + 60, UNDER]];
  for (const [name, x, y, city] of labels) {
    const [a, b] = panel.project([x, y]);
    if (a < 0 || b < 0 || a > panel.wide || b > panel.high) continue;
    if (city !== null) { pen.fillStyle = city ? theme.ink : theme.base; pen.beginPath(); pen.arc(a, b, city ? 3 : 2, 0, 7); pen.fill(); }
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
  const pixel = 111.32 * Math.cos(latitude(view.y) * Math.PI / 180) / panel.zoom / view.k;
  const km = round(pixel * Math.min(150, panel.wide / 4), [5, 2, 1]), length = km / pixel;
  const text = km < 1 ? Math.round(km * 1000) + " m" : km + " km", y = panel.high - 10;
  haloed(pen, text, 10, y - 11, "13px " + FONT, "left");
  pen.strokeRect(10, y, length, 3); pen.fillRect(10, y, length, 3);
}

function scale() {
  const canvas = $("scale"), wide = canvas.clientWidth, pixels = Math.max(1, window.devicePixelRatio || 1), pen = canvas.getContext("2d");
  canvas.width = wide * pixels; canvas.height = 84 * pixels;
  pen.scale(pixels, pixels);
  if (unsure.checked) { widthScale(canvas, pen, wide); return; }
  if (flows) { flowScale(canvas, pen, wide); return; }
  if (moved) { turningScale(canvas, pen, wide); return; }
  const { detected_from: from } = data.scale;
  const left = 12, width = wide - 40, times = ratio(focused.map || data.maps[0]), place = share => left + Math.sqrt(share / data.top) * width;
  pen.font = "12px " + FONT; pen.textBaseline = "alphabetic"; pen.fillStyle = theme.ink;
  if (noneDetected) {
    pen.fillText(NONE_DETECTED, left, 12); faintScale(pen, left, 22);
    canvas.setAttribute("aria-label", NONE_DETECTED);
    return;
  }
  pen.fillText("Share of " + (isOfBox() ? "answers in the box" : "all answers") + ", detected cells", left, 12);
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
  const { undetected_to: faint, undetected_steps: steps } = data.scale;
  pen.textAlign = "left";
  for (let i = 0; i <= steps; i++) { pen.fillStyle = shades[Math.round(255 * faint * i / steps)]; pen.fillRect(left + i * 18, y, 18, 14); }
  pen.strokeStyle = theme.line; pen.lineWidth = 1; pen.strokeRect(left, y, 18 * (steps + 1), 14);
  pen.fillStyle = theme.ink; pen.fillText("paler: not distinguishable from zero", left + 18 * (steps + 1) + 8, y + 12);
}
const widthShade = part => flows ? .35 + .65 * Math.sqrt(part) : Math.sqrt(part);  // a line has to be seen
function flowScale(canvas, pen, wide) {
  const map = focused.map || data.maps[0];
  pen.font = "12px " + FONT; pen.textBaseline = "middle"; pen.lineCap = "butt";
  const line = (left, y, width, detected) => {
    pen.strokeStyle = detected ? theme.brand : theme.faint; pen.lineWidth = width; pen.setLineDash(detected ? [] : [3, 4]);
    pen.beginPath(); pen.moveTo(left, y); pen.lineTo(left + 40, y); pen.stroke(); pen.setLineDash([]);
  };
  const detected = [...map.detected].filter(i => !stays(map, i)).sort((a, b) => map.share[b] - map.share[a]);
  pen.fillStyle = theme.ink; pen.textAlign = "left";
  if (detected.length) {
    line(0, 12, map.size[detected[0]], true); pen.fillText(brief(Number(map.share[detected[0]].toPrecision(2))) + " of people, detected", 48, 12);
  } else pen.fillText(NONE_DETECTED, 0, 12);
  line(0, 40, 1, false); pen.fillText("may be zero", 48, 40);
  pen.strokeStyle = theme.brand; pen.lineWidth = 2; pen.beginPath(); pen.arc(20, 68, 8, 0, 7); pen.stroke();
  pen.fillText("stay in their cell, area by share", 48, 68);
  canvas.setAttribute("aria-label", "Lines: flows, as wide as their share of people; dashed: may be zero. Rings: who stay in their cell");
}
function widthScale(canvas, pen, wide) {
  const left = 12, width = wide - 40, one = flows ? "flow" : "cell", unit = moved ? "points" : flows ? "of people" : "of all answers";
  pen.font = "12px " + FONT; pen.textBaseline = "alphabetic"; pen.fillStyle = theme.ink;
  pen.fillText(`Half the width of a ${one}'s interval, ` + unit, left, 12);
  for (let i = 0; i < width; i++) { pen.fillStyle = widths[Math.round(255 * widthShade((i / width) ** 2))]; pen.fillRect(left + i, 18, 1.5, 14); }
  pen.strokeStyle = theme.line; pen.lineWidth = 1; pen.strokeRect(left, 18, width, 14);
  pen.fillStyle = theme.ink; pen.textAlign = "center";
  for (const part of [0, .25, .5, 1]) pen.fillText("± " + brief(Number((part * part * widest).toPrecision(2))), Math.max(left + 10, Math.min(left + part * width, wide - 24)), 48);
  pen.textAlign = "left"; pen.fillText((flows ? "dashed" : "hatched") + ": not detected", left, 72);
  canvas.setAttribute("aria-label", `Half the width of a ${one}'s interval, up to ` + percent(widest) + (flows ? "; dashed flows are not detected" : "; hatched cells are not detected"));
}
function turningScale(canvas, pen, wide) {
  const left = 12, width = wide - 24, relative = isRelative();
  const top = percent(relative ? data.top_relative : data.top).replace(" %", ""), unit = relative ? "per cent of the base" : "points";
  pen.font = "12px " + FONT; pen.fillStyle = theme.ink;
  pen.fillText(relative ? "Change of the share, per cent of the base" : "Change of the share, points", left, 12);
  for (let i = 0; i < width; i++) { pen.fillStyle = shades[Math.round(255 * i / width)]; pen.fillRect(left + i, 18, 1.5, 14); }
  pen.strokeStyle = theme.ink; pen.lineWidth = 1.4; pen.strokeRect(left, 18, width, 14);
  pen.fillStyle = theme.ink; pen.fillText("-" + top, left, 48);
  pen.textAlign = "center"; pen.fillText("0", left + width / 2, 48);
  pen.textAlign = "right"; pen.fillText("+" + top + (relative && data.top_relative === 1 ? " and more" : ""), left + width, 48);
  [.4, .45, .5, .55, .6].forEach((part, i) => { pen.fillStyle = shades[Math.round(255 * part)]; pen.fillRect(left + i * 18, 60, 18, 14); });
  pen.strokeStyle = theme.line; pen.lineWidth = 1; pen.strokeRect(left, 60, 90, 14);
  pen.fillStyle = theme.ink; pen.textAlign = "left"; pen.fillText("not outlined: no detected change", left + 98, 72);
  canvas.setAttribute("aria-label", "Change of the share of answers in a cell, from -" + top + " to +" + top + " " + unit + "; outlined cells changed");
}
const sizeOf = (map, i) => Math.abs((flows && map.detected.has(i) ? map.estimate : map.share)[i]);
const inOrder = map => map.share.map((_, i) => i).sort((a, b) => map.detected.has(b) - map.detected.has(a) ||
  (flows && stays(map, a) - stays(map, b)) || sizeOf(map, b) - sizeOf(map, a));
function table() {
  const map = focused.map, body = $("busiest");
  $("which").textContent = (flows ? "Largest flows" : moved ? "Largest changes" : "Busiest cells") + (slots.length > 1 ? ": " + focused.slot : "");
  $("detectable").textContent = map && !moved ? (slots.length > 1 ? focused.slot + ": a" : "A") + " share of " + percent(map.detectable_share) + " is detected 8 times in 10, a smaller one less often." : "";
  const order = map ? map.order ??= inOrder(map) : [];
  body.replaceChildren(...order.slice(0, 10).map(i => tableRow(map, i)));
  areaTable();
}
function areaTable() {
  const body = $("areas"), rows = focused.map && focused.map.areas;
  if (!body || !rows) return;
  $("areas-of").textContent = "Areas: " + focused.slot;
  body.replaceChildren(...rows.map(row => {
    const line = document.createElement("tr"), head = make("th", row.name);
    head.scope = "row";
    if (!row.detected) line.className = "unsure";
    line.append(head, make("td", percent(row.estimate)), make("td", span(row.low, row.high)));
    return line;
  }));
}
function tableRow(map, i) {
  const row = document.createElement("tr"), head = make("th", ""), button = make("button", flows ? map.ways[i] : data.called[i] || data.names[i]);
  head.scope = "row"; button.type = "button"; button.className = "plain";
  head.append(button);
  if (!flows && data.called[i]) head.append(make("small", data.names[i]));
  if (!map.detected.has(i)) row.className = "unsure";
  if (moved) { row.append(head, ...changeCells(map, i)); return pointed(row, button, i); }
  row.append(head, make("td", !flows ? amount(map.share[i]) : map.detected.has(i) ? percent(map.estimate[i]) : ""));
  if (!flows) row.append(make("td", percent(map.share[i] / inBox(map))));
  row.append(make("td", span(map.low[i], map.high[i])));
  return pointed(row, button, i);
}
function changeCells(map, i) {
  const change = make("td", amount(map.share[i])), part = make("td", ""), known = relativeOf(map, i);
  change.append(make("small", span(map.low[i], map.high[i])));
  if (known) { part.textContent = signed(known[0]); part.append(make("small", signedSpan(known[1], known[2]))); }
  return [change, part];
}
function pointed(row, button, i) {
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
  const over = !panel.map ? -1 : flows ? flowAt(panel, panel.map, panel.project([x, y])) : rings.findIndex(ring => inside(ring, x, y));
  choose(panel, over, event.clientX, event.clientY);
}
// Dragged with a mouse, or a finger once the map is enlarged; two fingers zoom.
const fingers = new Map();
function press(panel, event) {
  fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
  panel.canvas.setPointerCapture(event.pointerId);
}
function drag(panel, event) {
  const before = fingers.get(event.pointerId), now = [event.offsetX, event.offsetY];
  if (!before) return false;
  const other = [...fingers].find(([id]) => id !== event.pointerId);
  if (other) {
    const apart = ([x, y]) => Math.hypot(x - other[1][0], y - other[1][1]) || 1;
    zoomBy(apart(now) / apart(before), panel, other[1]);
  } else if (event.pointerType === "mouse" || view.k > 1) panBy(panel, now[0] - before[0], now[1] - before[1]);
  fingers.set(event.pointerId, now);
  return true;
}
function release(event) { if (fingers.delete(event.pointerId)) remember(); }
// A wheel scrolls the page until a map has the focus.
function wheel(panel, event) {
  if (!event.ctrlKey && !event.metaKey && document.activeElement !== panel.canvas) return;
  event.preventDefault();
  zoomBy(Math.exp(-event.deltaY / 400), panel, [event.offsetX, event.offsetY]);
  remember();
}
const ZOOMS = { "+": 1.5, "=": 1.5, "-": 1 / 1.5 };
function moveView(panel, event) {
  if (event.key in ZOOMS) zoomBy(ZOOMS[event.key]);
  else if (event.key === "0") look(...Object.values(middleOf()));
  else if (event.shiftKey && ARROWS[event.key]) panBy(panel, -80 * ARROWS[event.key][0], 80 * ARROWS[event.key][1]);
  else return false;
  event.preventDefault();
  remember();
  return true;
}
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
function step(panel, event) {
  if (moveView(panel, event)) return;
  const way = ARROWS[event.key];
  if (!way || !panel.map) return;
  event.preventDefault();
  if (flows) { stepFlow(panel, way[0] - way[1]); return; }
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
// Flows in the order of the table.
function stepFlow(panel, way) {
  const map = panel.map;
  map.order ??= inOrder(map);
  const order = map.order.filter(i => isDrawn(map, i) && !isAside(map, i));
  if (order.length) show(panel, order[panel.at < 0 ? 0 : (order.indexOf(panel.at) + way + order.length) % order.length]);
}
function show(panel, i) {
  const spot = spotOf(panel.map, i), [a, b] = panel.project(spot);
  if (a < 0 || b < 0 || a > panel.wide || b > panel.high - UNDER) { Object.assign(view, { x: spot[0], y: spot[1] }); panels.forEach(drawPanel); remember(); }
  const box = panel.canvas.getBoundingClientRect(), [x, y] = panel.project(spot);
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
const relativeOf = (map, i) => (map.relative || {})[i];
function described(map, i) {
  if (flows) return map.titles[i];
  if (moved) return (data.called[i] ? data.called[i] + ", " : "") + data.names[i] + "\n" + (map.detected.has(i) ? "" : "no detected change: ") +
    amount(map.share[i]) + " of all\n" + brief(data.level) + " interval " + span(map.low[i], map.high[i]) +
    (relativeOf(map, i) ? "\n" + signed(relativeOf(map, i)[0]) + " of its share in " + map.base + ", " + signedSpan(...relativeOf(map, i).slice(1)) : "");
  const share = map.share[i], seen = map.detected.has(i), apart = seen && (share < map.low[i] || share > map.high[i]);
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

// Places that can be searched for: name, centre, cell or -1.
const found = new Map();
for (const [name, x, y] of labels) if (name) found.set(name, [x, y, -1]);
base.areas.forEach(([name, parts]) => { if (name && parts[0].length) found.set(name, [...centreOf(parts[0]), -1]); });
for (const [i, name] of Object.entries(data.called)) found.set(name, [...centres[i], Number(i)]);
$("places").append(...[...found.keys()].sort().slice(0, 500).map(name => Object.assign(document.createElement("option"), { value: name })));
function search() {
  const text = $("find").value.trim().toLowerCase(), result = $("found");
  if (!text) { result.textContent = ""; pick(-1); return; }
  const names = [...found.keys()], name = names.find(one => one.toLowerCase() === text) ?? names.find(one => one.toLowerCase().startsWith(text)) ?? names.find(one => one.toLowerCase().includes(text));
  const cell = name === undefined ? data.names.findIndex(one => one.toLowerCase() === text) : found.get(name)[2];
  if (name === undefined && cell < 0) { result.textContent = "no such place on this map"; return; }
  const [x, y] = name === undefined ? centres[cell] : found.get(name);
  const there = x >= west && x <= east && y >= south && y <= north;
  result.textContent = (name ?? data.names[cell]) + (there ? "" : " is outside the box");
  look(x, y, Math.max(view.k, 4));
  if (flows) pick(cell);
  remember();
  if (cell >= 0 && focused.map && !flows) requestAnimationFrame(() => show(focused, cell));
}
function pick(cell) {
  if (picked === cell) return;
  picked = cell;
  drawSoon(); remember();
}
$("find").addEventListener("change", search);
$("find").addEventListener("keydown", event => { if (event.key === "Enter") { event.preventDefault(); search(); } });
for (const [name, times] of [["nearer", 1.5], ["further", 1 / 1.5]]) $(name).addEventListener("click", () => { zoomBy(times); remember(); });
$("whole").addEventListener("click", () => { look(...Object.values(middleOf())); remember(); });
$("play").addEventListener("click", play);
if (baseBox) baseBox.addEventListener("change", () => { chooseBase(windows[slider.value]); drawSoon(); remember(); });
for (const one of [slider, sure, unsure, of].filter(Boolean)) { one.addEventListener("input", drawSoon); one.addEventListener("change", remember); }
addEventListener("resize", drawSoon);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; recolour(); });
addEventListener("afterprint", () => { delete document.documentElement.dataset.theme; recolour(); });
readColours();
draw();
})();
