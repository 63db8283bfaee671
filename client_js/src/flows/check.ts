/** Checking definitions of flows, strictly: what docs/metrics.md asks of them. */

import { fieldsOf, refuse, whole } from "../core/check.js";
import { MetricsFileError } from "../core/errors.js";
import { NO_DATA, OTHER, type Definition, type KindRules } from "../core/metrics.js";
import { hasPermanentRound } from "../core/privacy.js";
import { checkGrid } from "../places/check.js";
import { covers, parseSlot } from "../places/duty.js";
import type { H3 } from "../places/h3.js";
import { Sides, type FlowDetails } from "./classes.js";

const KEYS = ["grid", "from", "to", "bands_km", "mode", "spread", "window", "lag", "max_gap_minutes"];

/** Every rule of a definition of kind `flow`. Throws MetricsFileError. */
export const checkFlow = (definition: Definition, h3: H3 | undefined): KindRules => {
  const { name, params, fallback, no_data: noData, max_reports_per_period: each, max_reports: ever, max_memoized_values: cap } = definition;
  const where = `${name}: details`;
  const fields = fieldsOf(where, definition.details, KEYS);
  const details = fields as unknown as FlowDetails;
  if (details.grid?.kind === "h3" && !h3?.cellToBoundary) throw new MetricsFileError("h3_missing", name);
  checkGrid(fieldsOf(`${where}: grid`, details.grid, ["kind", "box", "levels", "rows", "columns"]) as unknown as FlowDetails["grid"]);
  const once = details.mode === "once";
  if (!once && details.mode !== "window") refuse(where, "mode is not once or window");
  whole(where, fields, "spread", 1, once ? 1000 : 1);
  whole(where, fields, "window", once ? 0 : 2, once ? 0 : 1000);
  whole(where, fields, "lag", 0, 60);
  whole(where, fields, "max_gap_minutes", 1, 1440);
  checkSlots(where, details);
  checkCells(where, details, h3);
  if (each !== 1 || (once && ever !== 1)) refuse(name, "one answer a period, and of mode 'once' for life");
  if (fallback !== OTHER || noData !== NO_DATA || cap !== 1) refuse(name, "fallback, no_data or max_memoized_values is not that of a flow");
  if (hasPermanentRound(params) || params.num_bits > 64) refuse(name, "params have a permanent round, or more than 64 symbols");
  if (details.bands_km.length + 3 > params.num_bits) refuse(name, "params have fewer symbols than distance bands");
  if (params.num_cohorts % 10) refuse(name, "num_cohorts is not a multiple of 10");
  return { encodings: ["flow_symbol"], takesNoData: true, numValues: Infinity };
};

const checkSlots = (where: string, { from, to, lag }: FlowDetails): void => {
  if (typeof from !== "string" || typeof to !== "string") refuse(where, "from or to is not text");
  const [one, two] = [parseSlot(from), parseSlot(to)];
  if ((from === to) !== lag > 0) refuse(where, "lag goes with one slot in two periods");
  if (lag) return;
  if (one.name === two.name) refuse(where, "from and to have one name");
  for (let hour = 0; hour < 48; hour++) {
    if (covers(one, hour % 24, hour >= 24) && covers(two, hour % 24, hour >= 24)) refuse(where, "from and to overlap");
  }
};

const checkCells = (where: string, details: FlowDetails, h3: H3 | undefined): void => {
  const { bands_km: edges, grid } = details;
  const meters = Array.isArray(edges) ? edges.map((edge) => Math.round(1000 * edge)) : [];
  const rise = meters.every((edge, i) => edge > (meters[i - 1] ?? 0) && edge <= 4e7);
  if (!meters.length || !rise || !edges.every((edge) => typeof edge === "number")) refuse(where, "bands_km do not rise, above 0, by a meter or more");
  if (grid.levels.length !== 2) refuse(where, "levels are not two, of zones and of cells");
  const sides = new Sides(details, h3);
  if (sides.cells.length < 2 || sides.cells.length > 200) refuse(where, "there are not 2 to 200 cells");
  if (sides.zones.zones.length > 64) refuse(where, "there are more than 64 zones");
};
