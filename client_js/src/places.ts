/** The part for metrics of kind `location`: pass `places()` to `open`. */

import type { Metric, Places, RecorderOfParts } from "./core/metrics.js";
import { UnknownMetricError } from "./core/errors.js";
import { actsOf } from "./places/acts.js";
import { checkPlace } from "./places/check.js";
import { Grid } from "./places/grid.js";
import type { H3 } from "./places/h3.js";
import { Visits } from "./places/visits.js";

const partsOf = (recorder: RecorderOfParts, name: string): Metric[] => {
  const parts = [...recorder.metrics.metrics.values()].filter((metric) => metric.line === name && metric.definition.location);
  if (!parts.length) throw new UnknownMetricError("places_unknown", name);
  return parts;
};

/** Grids (quadkey, geohash, square; h3 where the library h3-js is passed), slots, dwell and modes. */
export const places = ({ h3 }: { readonly h3?: H3 } = {}): Places => ({
  check: (definition) => checkPlace(definition, h3),
  domain: (place, noData) => new Grid(place.grid, h3).domain(place.level, noData),
  ...actsOf(partsOf, (parts, secret, send, saved) => new Visits(parts, secret, send, saved, h3)),
});
