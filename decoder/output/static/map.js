// Maps of a page: cells, changes or flows on Leaflet, a slider over windows, a table of the largest.
// The data is in the page (#data) or at its data-src. Nothing comes from a network but the tiles of
// data-tiles, which an operator names.
"use strict";
(async () => {
const $ = id => document.getElementById(id);
const { src: source, tiles, attribution } = $("data").dataset;
const data = source ? await (await fetch(source)).json() : JSON.parse($("data").textContent);
for (const map of data.maps) {
  for (const name of ["share", "low", "high", "estimate"]) map[name] = map[name].map(count => count * data.unit);
  map.detected = new Set(map.detected);
}
const moved = Boolean(data.difference);  // maps of changes: shares are differences, with a sign
const flows = Boolean(data.flows);  // maps of flows: marks are curves between cells, and rings
const slider = $("time"), sure = $("sure"), unsure = $("unsure"), of = $("of"), tip = $("tip");
const NONE_DETECTED = `No ${flows ? "flow" : "cell"} is detected`;
const noneDetected = !moved && data.maps.every(map => !map.detected.size);

const make = (tag, text = "", className = "") => Object.assign(document.createElement(tag), { textContent: text, className });
const count = number => number.toLocaleString("en");
const digits = part => {  // as decoder.tables.format
  const size = Math.abs(Number((100 * part).toPrecision(3)));
  return size < 5e-10 ? "0" : (100 * part).toFixed(Math.max(2 - Math.floor(Math.log10(size)), 0));
};
const percent = share => digits(Math.min(Math.max(share, 0), 1)) + " %";
const brief = share => percent(Number(share.toPrecision(2))).replace(/(\.\d*?)0+ %/, "$1 %").replace(". %", " %");
const points = share => (share > 0 ? "+" : "") + digits(share);
const amount = share => moved ? points(share) + " points" : percent(share);
const span = (low, high) => moved ? points(low) + " to " + points(high) + " points" : percent(low).replace(" %", "") + " to " + percent(high);
const outside = map => map.other + (map.no_data ?? 0);  // of the cells: reserved values
const inBox = map => Math.max(1 - outside(map), 1e-9);
const isOfBox = () => of !== null && of.value === "box";
const half = (map, i) => (map.high[i] - map.low[i]) / 2;
const widest = Math.max(...data.maps.map(map => map.share.reduce((most, _, i) => Math.max(most, half(map, i)), 1e-12)));

// Places. Centers and curves are points of the Mercator plane, in which shapes are true.
const { around, base } = data;
const crs = L.CRS.EPSG3857, PLANE = 12;
const latLngs = line => line.map(([x, y]) => L.latLng(y, x));
const onPlane = at => crs.latLngToPoint(L.latLng(at), PLANE);
const fromPlane = point => crs.pointToLatLng(point, PLANE);
const centerOf = ring => ring.map(onPlane).reduce((sum, corner) => sum.add(corner), L.point(0, 0)).divideBy(ring.length);
const rings = data.cells.map(latLngs), centers = rings.map(centerOf);
const boxes = rings.map(ring => L.latLngBounds(ring)), box = L.latLngBounds(rings.flat());
const userAreas = base.areas.map(([name, parts]) => [name, parts.map(latLngs)]);
const districts = (data.areas || []).map(parts => parts.map(latLngs));
const districtNames = districts.length ? data.maps.find(map => map.areas).areas.map(row => row.name) : [];
const labels = [  // the first ones take the room
  ...base.points.map(([name, [x, y]]) => [name, [y, x], "station"]),
  ...districts.map((parts, i) => [districtNames[i], fromPlane(centerOf(parts[0])), "district-name"]),
  ...around.cities.map(([name, x, y]) => [name, [y, x], "city"]),  // those of most people first
];
function contains(ring, lat, lng) {
  let odd = false;
  ring.forEach((a, i) => {
    const b = ring[(i || ring.length) - 1];
    if ((a.lat > lat) !== (b.lat > lat) && lng < (b.lng - a.lng) * (lat - a.lat) / (b.lat - a.lat) + a.lng) odd = !odd;
  });
  return odd;
}
function cellAt(at) {
  const { lat, lng } = L.latLng(at);
  return rings.findIndex((ring, i) => boxes[i].contains([lat, lng]) && contains(ring, lat, lng));
}
// The edges that only one of some cells has.
function outline(cells) {
  const edges = new Map(), key = ({ lat, lng }) => Math.round(lat * 1e4) + "," + Math.round(lng * 1e4);
  for (const ring of cells.map(i => rings[i])) ring.forEach((a, i) => {
    const b = ring[(i + 1) % ring.length], name = [key(a), key(b)].sort().join(" ");
    if (!edges.delete(name)) edges.set(name, [a, b]);
  });
  return [...edges.values()];
}

// What is looked at: base, window, shares of what, detected cells only. It is kept in the address.
const baseBox = data.bases ? $("base") : null, slots = [...new Set(data.maps.map(map => map.slot))];
const baseOf = map => baseBox === null || map.base === baseBox.value;
const asked = new URLSearchParams(location.hash.slice(1));
let windows = [];
// Side by side are slots, or windows of one slot: those up to the slider's.
const side = $("side"), MANY = 12;
const firstOf = () => Math.max(0, Math.min(windows.length, Math.max(Number(slider.value) + 1, MANY)) - MANY);
const windowOf = panel => windows[side.value ? firstOf() + panel.number : slider.value];
const mapOf = panel => data.maps.find(map => map.slot === panel.slot && map.window === windowOf(panel) && baseOf(map));
function chooseBase(window) {  // the windows that are compared with it
  windows = [...new Set(data.maps.filter(baseOf).map(map => map.window))];
  slider.max = windows.length - 1;
  slider.value = windows.includes(window) ? windows.indexOf(window) : windows.length - 1;
  $("play").hidden = slider.hidden = $("sides").hidden = windows.length < 2;
}
if (baseBox && data.bases.includes(asked.get("base"))) baseBox.value = asked.get("base");
chooseBase(data.maps.some(map => baseOf(map) && map.window === asked.get("window")) ? asked.get("window") : data.first);
if (of && asked.get("of") === "box") of.value = asked.get("of");
side.append(...slots.map(value => Object.assign(make("option", "windows of " + value), { value })));
if (slots.includes(asked.get("side"))) side.value = asked.get("side");
const sureAtFirst = moved && data.maps.some(map => map.detected.size);  // of changes those detected are shown first
sure.checked = asked.has("detected") ? asked.get("detected") === "1" : sureAtFirst;
unsure.checked = asked.has("width");
let picked = flows ? data.names.indexOf(asked.get("cell")) : -1;  // the cell whose flows stand out
let whole = true;  // the maps show the whole box, whatever the size of the window
function remember() {
  const shown = new URLSearchParams(), { lat, lng } = panels[0].map.getCenter();
  if (windows.length > 1) shown.set("window", windows[slider.value]);
  if (baseBox && baseBox.selectedIndex > 0) shown.set("base", baseBox.value);
  if (isOfBox()) shown.set("of", of.value);
  if (side.value) shown.set("side", side.value);
  if (sure.checked !== sureAtFirst) shown.set("detected", sure.checked ? "1" : "0");
  if (unsure.checked) shown.set("width", "1");
  if (picked >= 0) shown.set("cell", data.names[picked]);
  if (!whole) shown.set("at", [lng.toFixed(4), lat.toFixed(4), panels[0].map.getZoom().toFixed(2)].join(","));
  history.replaceState(null, "", "#" + shown);
}

function makePanel(slot, number) {
  const figure = make("figure"), caption = make("figcaption"), frame = make("div", "", "view");
  figure.append(caption, frame);
  $("maps").append(figure);
  const [west, east] = [onPlane(box.getNorthWest()), onPlane(box.getSouthEast())];
  const shape = 1.06 * (east.y - west.y) / (east.x - west.x || 1);
  frame.style.aspectRatio = 1 / (side.value ? shape : Math.max(shape, slots.length > 1 ? 1.3 : 1));
  frame.tabIndex = 0;
  frame.setAttribute("role", "img");
  const map = L.map(frame, {
    zoomControl: false, attributionControl: false, keyboard: false, scrollWheelZoom: false, trackResize: false,
    zoomSnap: 0, zoomDelta: .5, zoomAnimation: false, fadeAnimation: false, inertia: false, maxBounds: box.pad(1),
  }).fitBounds(box);
  const panel = { slot, number, caption, frame, map, at: -1, shown: undefined };
  addLayers(panel);
  if (tiles) addTiles(map, frame);
  L.control.scale({ imperial: false, maxWidth: 150 }).addTo(map);
  panel.nothing = make("p", NONE_DETECTED, "nothing");
  frame.append(panel.nothing);
  map.on("movestart", () => choose(panel, -1));
  map.on("move", () => { if (map.dragging.moving()) drag(panel); });
  map.on("moveend", () => { declutter(panel); if (!leading) lead(panel); });
  // A finger scrolls the page until the map is enlarged; two fingers zoom.
  if (isTouch) map.on("zoomend", () => map.dragging[map.getZoom() > wholeZoom + .01 ? "enable" : "disable"]());
  frame.addEventListener("keydown", event => step(panel, event));
  frame.addEventListener("blur", () => choose(panel, -1));
  for (const name of ["pointerdown", "pointermove"]) frame.addEventListener(name, event => hover(panel, event));
  frame.addEventListener("pointerleave", () => choose(panel, -1));
  // A wheel scrolls the page until a map has the focus.
  frame.addEventListener("wheel", event => {
    const zooms = event.ctrlKey || event.metaKey || document.activeElement === frame;
    map.scrollWheelZoom[zooms ? "enable" : "disable"]();
  }, { capture: true });
  return panel;
}
// Tiles lie over the packaged ground, which stays where their server does not answer.
function addTiles(map, frame) {
  const options = { attribution, minZoom: -3, minNativeZoom: 0, maxNativeZoom: 19, maxZoom: 24 };
  const flavor = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const layer = tiles.split(/[?#]/)[0].endsWith(".pmtiles") ? protomapsL.leafletLayer({ url: tiles, flavor, lang: "en", ...options })
    : L.tileLayer(tiles, options);
  layer.addTo(map);
  if (attribution) L.control.attribution({ prefix: false }).addTo(map);
  frame.classList.add("tiled");
}
// Ground, cells, lines and marks lie in panes over each other. All but cells and flows are SVG, which
// takes its colors from the style sheet.
function addLayers(panel) {
  const { map } = panel;
  ["ground", "cells", "lines", "flows"].forEach((name, i) => { map.createPane(name).style.zIndex = 400 + i; });
  if (tiles) map.getPane("ground").style.zIndex = 100;
  const drawn = Object.fromEntries(["ground", "lines"].map(pane => [pane, L.svg({ pane, padding: .3 })]));
  const add = (layer, pane, className, more) => {
    const options = { renderer: drawn[pane], className, interactive: false, opacity: 1, fillOpacity: 1, weight: 1, ...more };
    return new layer([], options).addTo(map);
  };
  add(L.Polygon, "ground", "land").setLatLngs(around.land.map(latLngs));
  add(L.Polygon, "ground", "water").setLatLngs(around.lakes.map(latLngs));
  const lines = { river: around.rivers, coast: around.coast, border: around.borders, street: base.lines };
  for (const [name, parts] of Object.entries(lines)) add(L.Polyline, tiles && parts !== base.lines ? "ground" : "lines", name).setLatLngs(parts.map(latLngs));
  add(L.Polygon, "lines", "area").setLatLngs(userAreas.flatMap(([, parts]) => parts.map(part => [part])));
  add(L.Polygon, "lines", "district").setLatLngs(districts.flat().map(part => [part]));
  add(L.Polygon, "lines", "box").setLatLngs([box.getNorthWest(), box.getNorthEast(), box.getSouthEast(), box.getSouthWest()]);
  if (flows) {
    add(L.Polygon, "lines", "grid").setLatLngs(rings.map(ring => [ring]));
    panel.renderer = L.canvas({ pane: "flows", tolerance: NEAR });
    panel.flows = [];
  } else {
    panel.renderer = L.canvas({ pane: "cells" });
    panel.cells = L.layerGroup().addTo(map);
    panel.hatch = add(L.Polygon, "lines", "hatch", { fillColor: "url(#hatch)", stroke: false, smoothFactor: 0 });
    panel.detected = add(L.Polyline, "lines", "detected-cells");
  }
  panel.mark = add(L.Polygon, "lines", "pointed", { smoothFactor: 0 });
  for (const [x, y] of data.points) L.circleMarker([y, x], { renderer: drawn.lines, className: "spot", radius: 3.5, interactive: false }).addTo(map);
  panel.changes = L.layerGroup().addTo(map);
  panel.names = labels.filter(([, , kind]) => !tiles || kind !== "city").map(([name, at, kind]) => textMarker(at, name, "place " + kind).addTo(map));
}
function textMarker(at, text, className) {
  const icon = L.divIcon({ className, html: make("span", text), iconSize: null });
  return L.marker(at, { icon, interactive: false, keyboard: false });
}
// A name that would lie on another is left out, and cities beyond one for 200 by 200 pixels.
function declutter(panel) {
  const { x: wide, y: high } = panel.map.getSize(), taken = [[0, high - 34, 170, high]];  // the ruler
  let cities = Math.max(4, Math.round(wide * high / 40_000));
  panel.widths ??= panel.names.map(name => name.getElement().firstChild.offsetWidth);
  panel.names.forEach((name, i) => {
    const { x, y } = panel.map.latLngToContainerPoint(name.getLatLng()), { classList } = name.getElement();
    const toLeft = x + 7 + panel.widths[i] > wide, left = toLeft ? x - 7 - panel.widths[i] : x + 7;
    const [a, b, c, d] = [left - 2, y - 9, left + panel.widths[i] + 2, y + 9];
    const isCity = classList.contains("city");
    const free = (cities > 0 || !isCity) && x > 0 && y > 0 && x < wide && y < high && !taken.some(([p, q, r, s]) => a < r && p < c && b < s && q < d);
    if (free) taken.push([a, b, c, d]);
    if (free && isCity) cities--;
    classList.toggle("crowded", !free);
    classList.toggle("to-left", toLeft);
  });
}

// One view for all slots: the map that is moved leads the others.
let leading = false, wholeZoom = 0;
const isTouch = matchMedia("(pointer: coarse)").matches;
function together(action) {
  leading = true;
  panels.forEach(action);
  leading = false;
}
function lead(panel) {
  whole = false;
  const at = panel.map.getCenter(), zoom = panel.map.getZoom();
  together(({ map }) => { if (map !== panel.map) map.setView(at, zoom, { animate: false }); });
  remember();
}
// While one map is dragged the others are moved and not drawn again.
function drag(panel) {
  for (const { map } of panels) if (map !== panel.map) {
    const pane = map.getPane("mapPane"), there = map.latLngToContainerPoint(panel.map.getCenter());
    L.DomUtil.setPosition(pane, L.DomUtil.getPosition(pane).add(map.getSize().divideBy(2)).subtract(there).round());
  }
}
function look(at, zoom) {
  whole = false;
  together(panel => panel.map.setView(at, zoom, { animate: false }));
}
function fit() {
  whole = true;
  together(panel => panel.map.fitBounds(box, { paddingTopLeft: [8, 8], paddingBottomRight: [8, 34], animate: false }));
}
function resize() {
  together(({ map }) => {
    map.invalidateSize({ pan: false });
    wholeZoom = map.getBoundsZoom(box, false, L.point(16, 42));
    Object.assign(map.options, { minZoom: wholeZoom - 1, maxZoom: wholeZoom + 6 });
  });
  if (whole) fit();
}

let colors, shades, widths;
function readColors() {
  const style = getComputedStyle(document.documentElement), value = name => style.getPropertyValue("--" + name).trim();
  colors = Object.fromEntries(["brand", "faint", "mark"].map(name => [name, value(name)]));
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
const widthShade = part => Math.round(255 * (flows ? .35 + .65 * Math.sqrt(part) : Math.sqrt(part)));  // a line has to be seen

function drawPanel(panel) {
  const map = panel.shown = mapOf(panel);
  panel.at = -1;
  const text = windowOf(panel) + (map ? captionOf(map) : ": no reports in this window");
  panel.caption.replaceChildren(make("b", panel.slot), text);
  panel.frame.setAttribute("aria-label", panel.slot + ", " + text);
  panel.nothing.hidden = !map || moved || map.detected.size > 0;
  panel.changes.clearLayers();
  if (flows) drawFlows(panel, map);
  else drawCells(panel, map);
}
function captionOf(map) {
  const reports = count(map.reports), detected = map.detected.size, cells = count(data.cells.length);
  if (flows) return `: ${reports} reports; ${detected} of ${count(map.ends.length)} drawn flows detected`;
  if (moved) return (map.base ? " against " + map.base : "") +
    `: ${count(map.before)} reports before, ${reports} in this window; ${detected} of ${cells} cells changed`;
  const changes = Object.keys(map.changed).length;
  return `: ${reports} reports, ${percent(1 - outside(map))} in the box, other ${percent(map.other)}` +
    (map.no_data === undefined ? "" : ", no data " + percent(map.no_data)) +
    (map.unlisted ? "; in cells not shown " + percent(map.unlisted) : "") +
    `; ${detected} of ${cells} cells detected` +
    (changes ? `; ${changes} changed from the other windows (▲ more, ▼ less)` : "") +
    (map.source ? "; the map is " + map.source : "");
}

// Cells
function drawCells(panel, map) {
  const shaded = new Map();  // cells of one shade are one polygon: few to draw, whatever the number of cells
  (map ? map.shade : []).forEach((known, i) => {
    const shade = unsure.checked ? widthShade(half(map, i) / widest) : known;
    const bare = !moved && !unsure.checked && shade === 0;  // of changes 0 is the most less
    if (bare || (sure.checked && !map.detected.has(i))) return;
    if (!shaded.has(shade)) shaded.set(shade, []);
    shaded.get(shade).push([rings[i]]);
  });
  panel.cells.clearLayers();
  for (const [shade, cells] of shaded) L.polygon(cells, {
    renderer: panel.renderer, interactive: false, noClip: true, smoothFactor: 0,
    color: (unsure.checked ? widths : shades)[shade], weight: .6, fillOpacity: 1,
  }).addTo(panel.cells);
  panel.detected.setLatLngs(map ? map.outline ??= outline([...map.detected]) : []);
  panel.hatch.setLatLngs(map && unsure.checked && !sure.checked ? rings.filter((_, i) => !map.detected.has(i)).map(ring => [ring]) : []);
  panel.mark.setLatLngs([]);
  for (const [i, [change]] of Object.entries(map ? map.changed : {}))
    textMarker(fromPlane(centers[i]), change > 0 ? "▲" : "▼", "change").addTo(panel.changes);
}

// Flows. One is bent to the right of its way, so that two ways do not overlap.
const BEND = .16, STEPS = 24;  // of its length, as in map_picture.py; parts of the curve
const NEAR = 8;  // pixels to a flow that is pointed at
const stays = (map, i) => map.ends[i][0] === map.ends[i][1];
const isDrawn = (map, i) => map.detected.has(i) || !sure.checked;
const isAside = (map, i) => picked >= 0 && !map.ends[i].includes(picked);
function along(map, i, t) {
  const [a, c] = map.ends[i].map(cell => centers[cell]), way = c.subtract(a);
  const b = a.add(c).divideBy(2).add([-BEND * way.y, BEND * way.x]);
  return fromPlane(a.multiplyBy((1 - t) ** 2).add(b.multiplyBy(2 * t * (1 - t))).add(c.multiplyBy(t * t)));
}
const spotOf = (map, i) => flows ? along(map, i, .5) : fromPlane(centers[i]);
const Curve = L.Polyline.extend({  // with a head where the flow is detected
  _updatePath() {
    const { _renderer: renderer, _parts: [line], options: { head, stroke, weight, color } } = this, pen = renderer._ctx;
    if (!renderer._drawing || !stroke || !line) return;
    const a = line[0], c = line.at(-1), b = line[STEPS / 2].multiplyBy(2).subtract(a.add(c).divideBy(2));
    const way = c.subtract(b).divideBy(c.distanceTo(b) || 1), length = head ? Math.min(5 + 1.6 * weight, Math.max(.4 * c.distanceTo(b), 4)) : 0;
    const neck = c.subtract(way.multiplyBy(length)), wing = L.point(-way.y, way.x).multiplyBy(.36 * length + weight / 4);
    pen.beginPath();
    pen.moveTo(a.x, a.y);
    pen.quadraticCurveTo(b.x, b.y, neck.x, neck.y);
    renderer._fillStroke(pen, this);
    if (!head) return;
    pen.fillStyle = color;
    pen.beginPath();
    for (const { x, y } of [c, neck.add(wing), neck.subtract(wing)]) pen.lineTo(x, y);
    pen.fill();
  },
});
function drawFlows(panel, map) {
  panel.flows.forEach(flow => flow.remove());
  panel.flows = map ? map.ends.map(([from], i) => {
    const shared = { renderer: panel.renderer, interactive: false, ...flowStyle(map, i) };
    if (stays(map, i)) return L.circleMarker(fromPlane(centers[from]), { ...shared, radius: map.size[i] });
    const line = Array.from({ length: STEPS + 1 }, (_, step) => along(map, i, step / STEPS));
    return new Curve(line, { ...shared, noClip: true, smoothFactor: 0, lineCap: "butt", head: map.detected.has(i) });
  }) : [];
  const order = [...panel.flows.keys()].sort((a, b) => map.detected.has(a) - map.detected.has(b));
  for (const i of order) panel.flows[i].addTo(panel.map);
  panel.mark.setLatLngs(picked < 0 ? [] : rings[picked]);
}
function flowStyle(map, i, pointed = false) {
  const detected = map.detected.has(i), drawn = isDrawn(map, i), ring = stays(map, i);
  const opacity = pointed ? 1 : isAside(map, i) ? .1 : detected ? .85 : .35;
  const color = pointed ? colors.mark : unsure.checked ? widths[widthShade(half(map, i) / widest)] : detected ? colors.brand : colors.faint;
  const weight = !ring ? map.size[i] : detected ? 2 : 1, dashArray = detected ? null : "3 4";
  return { stroke: drawn, fill: ring && drawn && detected, color, opacity, fillOpacity: .15 * opacity, dashArray, weight };
}
function flowAt(panel, point) {
  let best = -1, least = NEAR;
  panel.flows.forEach((flow, i) => {
    if (!isDrawn(panel.shown, i) || isAside(panel.shown, i)) return;
    const size = panel.shown.size[i], apart = stays(panel.shown, i)
      ? panel.map.latLngToLayerPoint(flow.getLatLng()).distanceTo(point) - size
      : (flow.closestLayerPoint(point)?.distance ?? Infinity) - size / 2;  // none: out of sight
    if (apart + !panel.shown.detected.has(i) < least) { least = apart + !panel.shown.detected.has(i); best = i; }
  });
  return best;
}

// What the colors mean.
function scale() {
  (unsure.checked ? widthScale : flows ? flowScale : moved ? changeScale : shareScale)();
}
function showScale(title, strip, ticks, pale, note) {
  const bar = make("div", "", "strip"), under = make("div", "", "ticks"), last = make("div");
  bar.style.background = `linear-gradient(to right, ${strip})`;
  ticks.forEach(([part, text]) => {
    const tick = under.appendChild(make("span", text));
    tick.style.left = 100 * part + "%";
    tick.style.transform = `translateX(${-100 * part}%)`;
  });
  for (const color of pale) last.appendChild(make("span", "", "pale")).style.background = color;
  last.append(note);
  $("scale").replaceChildren(make("div", title), ...(strip.length ? [bar, under] : []), last);
}
const paleShades = parts => parts.map(part => shades[Math.round(255 * part)]);
function shareScale() {
  const { detected_from: from, undetected_to: faint, undetected_steps: steps } = data.scale;
  const top = isOfBox() ? data.top / inBox(focused.shown || data.maps[0]) : data.top, unit = 10 ** Math.floor(Math.log10(top));
  const ticks = [];
  for (const share of [...[0, .1, .2, .5, 1, 2, 5].map(part => part * unit).filter(share => share < .8 * top), top]) {
    const part = Math.sqrt(share / top);
    if (!ticks.length || part - ticks.at(-1)[0] > .13) ticks.push([part, brief(share)]);
  }
  const title = noneDetected ? NONE_DETECTED : `Share of ${isOfBox() ? "answers in the box" : "all answers"}, detected cells`;
  showScale(title, noneDetected ? [] : shades.slice(Math.round(255 * from)), ticks,
    paleShades(Array.from({ length: steps + 1 }, (_, i) => faint * i / steps)), "Paler: not distinguishable from zero");
}
function changeScale() {
  const most = percent(data.top).replace(" %", "");
  showScale("Change of the share, points", shades, [[0, "-" + most], [.5, "0"], [1, "+" + most]],
    paleShades([.4, .45, .5, .55, .6]), "Not outlined: no change detected");
}
function widthScale() {
  const unit = moved ? "points" : flows ? "of people" : "of all answers";
  showScale(`Half-width of a ${flows ? "flow" : "cell"}'s interval, ${unit}`,
    Array.from({ length: 17 }, (_, i) => widths[widthShade((i / 16) ** 2)]),
    [0, .5, 1].map(part => [part, "± " + brief(part * part * widest)]), [], (flows ? "Dashed" : "Hatched") + ": not detected");
}
function flowScale() {
  const map = focused.shown || data.maps[0];
  const largest = Math.max(...[...map.detected].filter(i => !stays(map, i)).map(i => map.share[i]));
  $("scale").replaceChildren(make("div", Number.isFinite(largest) ? `Widest: ${brief(largest)} of people` : NONE_DETECTED), flowLegend);
}

// The table
const sizeOf = (map, i) => Math.abs((flows && map.detected.has(i) ? map.estimate : map.share)[i]);
const inOrder = map => map.order ??= map.share.map((_, i) => i).sort((a, b) => map.detected.has(b) - map.detected.has(a) ||
  (flows && stays(map, a) - stays(map, b)) || sizeOf(map, b) - sizeOf(map, a));
function table() {
  const map = focused.shown, slot = slots.length > 1 ? focused.slot + ": " : "", what = flows ? "Largest flows" : moved ? "Largest changes" : "Busiest cells";
  $("which").textContent = [what, ...(slot ? [focused.slot] : []), ...(side.value ? [windowOf(focused)] : [])].join(": ");
  $("detectable").textContent = map && !moved ? `${slot}${slot ? "a" : "A"} share of ${percent(map.detectable_share)} is detected 8 times in 10, a smaller one less often.` : "";
  $("busiest").replaceChildren(...(map ? inOrder(map) : []).slice(0, 10).map(i => tableRow(map, i)));
  if (!$("areas") || !map || !map.areas) return;
  $("areas-of").textContent = "Areas: " + focused.slot;
  $("areas").replaceChildren(...map.areas.map(row =>
    rowOf([row.name], row.detected, [make("td", percent(row.estimate)), make("td", span(row.low, row.high))])));
}
const rowOf = (named, detected, cells) => {
  const row = make("tr", "", detected ? "" : "unsure"), head = make("th");
  head.scope = "row";
  head.append(...named);
  row.append(head, ...cells);
  return row;
};
function tableRow(map, i) {
  const button = make("button", flows ? map.ways[i] : data.called[i] || data.names[i], "plain");
  button.type = "button";
  button.addEventListener("click", () => { focused.frame.scrollIntoView({ block: "nearest" }); show(focused, i); });
  button.addEventListener("blur", () => choose(focused, -1));
  const named = !flows && data.called[i] ? [button, make("small", data.names[i])] : [button];
  return rowOf(named, map.detected.has(i), moved ? changeCells(map, i) : shareCells(map, i));
}
function shareCells(map, i) {
  const interval = make("td", span(map.low[i], map.high[i]));
  if (flows) return [make("td", map.detected.has(i) ? percent(map.estimate[i]) : ""), interval];
  return [make("td", percent(map.share[i])), make("td", percent(map.share[i] / inBox(map))), interval];
}
function changeCells(map, i) {
  return [make("td", amount(map.share[i])), make("td", span(map.low[i], map.high[i]))];
}
function draw() {
  $("window").textContent = windows[slider.value];
  slider.setAttribute("aria-valuetext", windows[slider.value]);
  tip.hidden = true;
  panels.forEach(drawPanel);
  table();
  scale();
}
// A slider that is dragged sends more events than there are frames: each frame is drawn once.
let waiting = 0;
function drawSoon() { waiting ||= requestAnimationFrame(() => { waiting = 0; draw(); }); }

// Pointing at a cell or a flow, by pointer, keys or the table.
function hover(panel, event) {
  if (!panel.shown || panel.map.dragging.moving()) return;
  const i = flows ? flowAt(panel, panel.map.mouseEventToLayerPoint(event)) : cellAt(panel.map.mouseEventToLatLng(event));
  choose(panel, i, event.clientX, event.clientY);
}
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
function step(panel, event) {
  const way = ARROWS[event.key], zoom = { "+": 1, "=": 1, "-": -1 }[event.key];
  if (zoom) panel.map.setZoom(panel.map.getZoom() + zoom / 2);
  else if (event.key === "0") showWhole();
  else if (way && event.shiftKey) panel.map.panBy([80 * way[0], 80 * way[1]], { animate: false });
  else if (way && panel.shown) stepMark(panel, way);
  else return;
  event.preventDefault();
}
function stepMark(panel, way) {
  const map = panel.shown, order = inOrder(map);
  if (flows) {  // in the order of the table
    const drawn = order.filter(i => isDrawn(map, i) && !isAside(map, i)), next = drawn.indexOf(panel.at) + way[0] + way[1];
    if (drawn.length) show(panel, drawn[panel.at < 0 ? 0 : (next + drawn.length) % drawn.length]);
    return;
  }
  if (panel.at < 0) { show(panel, map.share.indexOf(map.share.reduce((most, share) => Math.max(most, share)))); return; }
  let next = panel.at, nearest = Infinity;
  centers.forEach((center, i) => {
    const { x, y } = center.subtract(centers[panel.at]);
    const ahead = x * way[0] + y * way[1], aside = Math.abs(x * way[1]) + Math.abs(y * way[0]);
    if (ahead > 1e-9 && aside <= ahead && ahead + 2 * aside < nearest) { nearest = ahead + 2 * aside; next = i; }
  });
  show(panel, next);
}
function show(panel, i) {
  const at = spotOf(panel.shown, i);
  if (!panel.map.getBounds().contains(at)) panel.map.panTo(at, { animate: false });
  const frame = panel.frame.getBoundingClientRect(), { x, y } = panel.map.latLngToContainerPoint(at);
  choose(panel, i, frame.left + x, frame.top + y);
}
function choose(panel, i, x, y) {
  if (i >= 0 && focused !== panel) { focused = panel; table(); scale(); }
  if (panel.at !== i) {
    if (!flows) panel.mark.setLatLngs(i < 0 ? [] : rings[i]);
    else for (const mark of [panel.at, i]) if (mark >= 0) panel.flows[mark].setStyle(flowStyle(panel.shown, mark, mark === i));
    panel.at = i;
  }
  tip.hidden = i < 0;
  if (i < 0) return;
  tip.textContent = described(panel.shown, i);
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = Math.max(4, Math.min(y + 14, innerHeight - tip.offsetHeight - 8)) + "px";
}
function described(map, i) {
  if (flows) return map.titles[i];
  const name = (data.called[i] ? data.called[i] + ", " : "") + data.names[i] + "\n", share = map.share[i], detected = map.detected.has(i);
  const interval = span(map.low[i], map.high[i]), level = Number((100 * data.level).toPrecision(6)) + " %";
  if (moved) return name + (detected ? "" : "no change detected: ") + `${amount(share)} of all\n${interval}, interval of the test`;
  const apart = detected && (share < map.low[i] || share > map.high[i]);
  return name + (detected ? "" : "not distinguishable from zero, best fit ") +
    `${percent(share)} of all, ${percent(share / inBox(map))} of answers in the box\n${level} interval of the cell: ${interval} of all` +
    (apart ? "\nThe map, smoothed toward other cells, lies outside the interval; the color shows the nearest end." : "") +
    (map.changed[i] ? "\nChange from the other windows, among answers in the box: " + span(map.changed[i][1], map.changed[i][2]) : "");
}

let playing = 0;
function play() {
  const starts = !playing;
  clearInterval(playing);
  if (starts && slider.value === slider.max) slider.value = -1;
  playing = starts && setInterval(() => {
    slider.value = Number(slider.value) + 1;
    draw();
    if (slider.value === slider.max) { play(); remember(); }
  }, 500);
  $("play").textContent = starts ? "❚❚" : "▶";
  $("play").setAttribute("aria-label", starts ? "Pause" : "Play");
}

// Places that can be searched for. The cell that contains one is selected.
const places = new Map(labels.filter(([name]) => name).map(([name, at]) => [name, at]));
for (const [name, parts] of userAreas) if (name && parts[0].length) places.set(name, fromPlane(centerOf(parts[0])));
for (const [i, name] of Object.entries(data.called)) places.set(name, fromPlane(centers[i]));
$("places").append(...[...places.keys()].sort().slice(0, 500).map(value => Object.assign(make("option"), { value })));
data.names.forEach((name, i) => { if (!places.has(name)) places.set(name, fromPlane(centers[i])); });
function placeOf(text) {
  const find = test => [...places.keys()].find(name => test(name.toLowerCase()));
  return find(name => name === text) ?? find(name => name.startsWith(text)) ?? find(name => name.includes(text));
}
function search() {
  const text = $("find").value.trim().toLowerCase(), name = text ? placeOf(text) : "";
  $("found").textContent = name ?? "no such place on this map";
  if (!text) pick(-1);
  if (!name) return;
  const at = places.get(name), cell = cellAt(at);
  if (cell < 0) $("found").textContent += box.contains(at) ? " is in none of the cells" : " is outside the box";
  look(at, Math.max(panels[0].map.getZoom(), wholeZoom + 2));
  if (flows) pick(cell);
  else if (cell >= 0 && focused.shown) show(focused, cell);
  remember();
}
function pick(cell) { picked = cell; draw(); remember(); }
function showWhole() { fit(); remember(); }
$("find").addEventListener("change", search);
$("find").addEventListener("keydown", event => { if (event.key === "Enter") { event.preventDefault(); search(); } });
for (const [name, zoom] of [["nearer", .5], ["further", -.5]])
  $(name).addEventListener("click", () => panels[0].map.setZoom(panels[0].map.getZoom() + zoom));
$("whole").addEventListener("click", showWhole);
$("play").addEventListener("click", play);
side.addEventListener("change", () => { arrange(); remember(); });
if (baseBox) baseBox.addEventListener("change", () => { chooseBase(windows[slider.value]); arrange(); remember(); });
for (const one of [slider, sure, unsure, of].filter(Boolean)) { one.addEventListener("input", drawSoon); one.addEventListener("change", remember); }

const flowLegend = $("flow-legend");
$("controls").hidden = $("scale").hidden = false;
let panels = [], focused;
function arrange() {
  const at = whole ? null : panels[0].map.getCenter(), zoom = at && panels[0].map.getZoom();
  for (const { map } of panels) map.remove();
  $("maps").replaceChildren();
  $("maps").classList.toggle("small", side.value !== "");
  panels = (side.value ? windows.slice(-MANY).map(() => side.value) : slots).map(makePanel);
  focused = panels.at(side.value ? -1 : 0);
  resize();
  if (at) look(at, zoom);
  draw();
}
function recolor() { readColors(); draw(); }
// Printed as it is seen, but light, and no wider than the paper.
function print(theme) {
  document.documentElement.dataset.theme = theme;
  for (const { frame: { style, offsetWidth, offsetHeight } } of panels) {
    style.setProperty("--wide", offsetWidth + "px");
    style.setProperty("--high", offsetHeight + "px");
    style.setProperty("--zoom", Math.min(1, 640 / offsetWidth));
  }
  recolor();
  for (const { renderer } of panels) renderer._redraw();  // the paper does not wait for a frame
}
addEventListener("beforeprint", () => print("light"));
addEventListener("afterprint", () => print(""));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolor);
readColors();
arrange();
const [lng, lat, zoom] = (asked.get("at") || "").split(",").map(Number);
if (Number.isFinite(lng) && Number.isFinite(lat) && zoom > 0) look([lat, lng], zoom);
new ResizeObserver(resize).observe($("maps"));
})();
