// The chart of a series: a reading under the pointer or the arrow keys, and a download as PNG.
"use strict";
(() => {
const figure = document.getElementById("chart");
if (!figure) return;
const tip = document.getElementById("reading");
const rows = [...document.querySelectorAll("#chart-table tbody tr")];
const names = [...document.querySelectorAll("#chart-table thead th")].slice(1).map((one) => one.textContent);
const NS = "http://www.w3.org/2000/svg";
let at = -1;
function read(drawing, number, place) {
  const { svg, xs, rule } = drawing;
  at = number;
  const cells = [...rows[number].cells].map((one) => one.textContent.trim());
  tip.textContent = [cells[0], ...names.map((name, i) => name + ": " + cells[i + 1])].join("\n");
  rule.setAttribute("x1", xs[number]);
  rule.setAttribute("x2", xs[number]);
  rule.removeAttribute("hidden");
  tip.hidden = false;
  const box = svg.getBoundingClientRect();
  const x = box.left + (xs[number] / svg.viewBox.baseVal.width) * box.width;
  const left = x + 14 + tip.offsetWidth > innerWidth ? x - 14 - tip.offsetWidth : x + 14;
  tip.style.left = Math.max(4, left) + "px";
  tip.style.top = Math.max(4, Math.min(place, innerHeight - tip.offsetHeight - 4)) + "px";
}
function nearest({ svg, xs }, event) {
  const box = svg.getBoundingClientRect();
  const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
  return xs.reduce((best, one, i) => (Math.abs(one - x) < Math.abs(xs[best] - x) ? i : best), 0);
}
for (const kind of ["wide", "narrow"]) {
  const svg = figure.querySelector("svg." + kind);
  const rule = document.createElementNS(NS, "line");
  const xs = rows.map((row) => Number(row.dataset[kind]));
  const drawing = { svg, xs, rule };
  const away = () => { tip.hidden = true; rule.setAttribute("hidden", ""); };
  rule.setAttribute("class", "reading-line");
  rule.setAttribute("y1", 14);
  rule.setAttribute("y2", svg.viewBox.baseVal.height - 34);
  rule.setAttribute("hidden", "");
  svg.append(rule);
  svg.tabIndex = 0;
  svg.addEventListener("pointermove", (event) => read(drawing, nearest(drawing, event), event.clientY + 12));
  svg.addEventListener("pointerleave", away);
  svg.addEventListener("blur", away);
  svg.addEventListener("keydown", (event) => {
    if (event.key === "Escape") away();
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = at < 0 ? rows.length - 1 : Math.min(Math.max(at + step, 0), rows.length - 1);
    read(drawing, next, svg.getBoundingClientRect().top + 20);
  });
}
const png = document.getElementById("png");
png.hidden = false;
png.addEventListener("click", () => {
  const picture = new Image();
  picture.addEventListener("load", () => {
    const canvas = document.createElement("canvas");
    canvas.width = 2 * picture.naturalWidth;
    canvas.height = 2 * picture.naturalHeight;
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = png.dataset.name + ".png";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    }, "image/png");
  });
  picture.src = document.getElementById("svg-link").href;
});
// A change of a control is shown at once; without this script a button does it.
const form = document.getElementById("chart-form");
form.addEventListener("change", (event) => { if (event.target.name !== "more") form.requestSubmit(); });
})();
