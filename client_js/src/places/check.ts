/** Checking definitions of places, strictly: what docs/metrics.md asks of them. */

import { MetricsFileError } from "../core/errors.js";
import { NO_DATA, type Definition, type Place } from "../core/metrics.js";
import { hasPermanentRound } from "../core/privacy.js";
import { covers, parseSlot } from "./duty.js";
import { Grid, type GridFields } from "./grid.js";
import type { H3 } from "./h3.js";

const NAME = /^[a-z][a-z0-9_.-]{0,63}$/;
const MERCATOR_LATITUDE = 85.0511287798066;
const LEVELS = { quadkey: [1, 28], geohash: [1, 12], square: [0, 12], h3: [0, 15] } as const;

/** Every rule of a definition of kind `location`. Throws MetricsFileError. */
export const checkPlace = (definition: Definition & { readonly location: Place }, h3: H3 | undefined): void => {
  const { name, location, params, fallback, no_data: noData, max_reports_per_period: each } = definition;
  if (location.grid.kind === "h3" && !h3) throw new MetricsFileError("h3_missing", name);
  checkGrid(location.grid);
  checkChoices(location);
  const suffix = `/${location.slot}/${location.level}`;
  const fits =
    name.endsWith(suffix) &&
    NAME.test(name.slice(0, -suffix.length)) &&
    fallback === "other" &&
    (noData ?? NO_DATA) === NO_DATA &&
    each === 1 &&
    (location.mode === "memo") === hasPermanentRound(params) &&
    (params.encoding !== "one_hot" || new Grid(location.grid, h3).domain(location.level, noData).size === params.num_bits);
  if (!fits) throw new MetricsFileError("metrics_file", `${name}: its name, fallback, no_data, mode or encoding does not go with a location`);
};

/** Every rule of a grid. */
export const checkGrid = (fields: GridFields): void => {
  const { kind, box, levels, rows, columns } = fields;
  const refuse = (why: string): never => {
    throw new MetricsFileError("metrics_file", `grid: ${why}`);
  };
  if (!Object.hasOwn(LEVELS, kind)) refuse("unknown kind");
  const limits = [90, 180, 90, 180];
  if (!Array.isArray(box) || box.length !== 4) refuse("box is not four numbers");
  box.forEach((edge, i) => Math.abs(edge) <= limits[i]! || refuse("box is not on the globe"));
  if (box[0] >= box[2] || box[1] === box[3]) refuse("box is empty");
  if (kind === "quadkey" && Math.max(-box[0], box[2]) > MERCATOR_LATITUDE) refuse("quadkeys end before that latitude");
  const [low, high] = LEVELS[kind as "square"];
  if (!Array.isArray(levels) || !levels.length) refuse("no levels");
  levels.forEach((level, i) => {
    if (!Number.isInteger(level) || level < low || level > high) refuse("a level that it has not");
    if (i && level <= levels[i - 1]!) refuse("levels do not increase");
  });
  for (const number of [rows, columns]) {
    const fits = Number.isInteger(number) && (kind === "square" ? number >= 1 && number <= 4096 : number === 0);
    if (!fits) refuse("rows and columns do not go with it");
  }
};

/** Every rule of a `location` but those of its grid. */
const checkChoices = (place: Place): void => {
  const refuse = (why: string): never => {
    throw new MetricsFileError("metrics_file", `location: ${why}`);
  };
  const { level, grid, mode, window, max_gap_minutes: gap, slots } = place;
  if (!grid.levels.includes(level)) refuse("level is not one of the grid's");
  if (!["memo", "window", "once"].includes(mode)) refuse("mode is unknown");
  const read = slots.map(parseSlot);
  const names = read.map((slot) => slot.name);
  if (!names.includes(place.slot) || new Set(names).size !== names.length || names.length > 24) refuse("slots");
  for (let hour = 0; hour < 48; hour++) {
    const both = read.filter((slot) => covers(slot, hour % 24, hour >= 24));
    if (both.length > 1) refuse("slots overlap");
  }
  const fits = mode === "window" ? window >= 2 && window <= 1000 : window === 0;
  if (!Number.isInteger(window) || !fits) refuse("window does not go with the mode");
  if (!Number.isInteger(gap) || gap < 1 || gap > 1440) refuse("max_gap_minutes");
  if (typeof place.pairs !== "boolean") refuse("pairs");
  const { turn, hold } = place;
  if (turn !== undefined && (turn !== "fresh" || mode !== "window")) refuse("turn is not 'fresh', or does not go with the mode");
  const most = { memo: 60, window: Math.min(60, window - 1), once: 0 }[mode];
  if (hold !== undefined && !(Number.isInteger(hold) && hold >= 1 && hold <= most)) refuse("hold does not go with the mode and its window");
};
