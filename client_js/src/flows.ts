/** The part for metrics of kind `flow`: pass `flows()` to `open`, in `kinds`. */

import { oneBit } from "./core/coins.js";
import { ValueRefusedError } from "./core/errors.js";
import { metricOf, type Kind } from "./core/metrics.js";
import { checkFlow } from "./flows/check.js";
import { flowOf, questionOf, Sides, symbolOf } from "./flows/classes.js";
import { FlowVisits } from "./flows/visits.js";
import { actsOf } from "./places/acts.js";
import type { H3 } from "./places/h3.js";

/** Pairs of usual cells, of which a device answers one question. h3: the library h3-js, for a grid of its cells. */
export const flows = ({ h3 }: { readonly h3?: H3 } = {}): Kind => ({
  kind: "flow",
  check: (definition) => checkFlow(definition, h3),
  encoder: (metric, cohort) => {
    const { definition } = metric;
    const sides = new Sides(flowOf(definition), h3);
    const { num_bits: symbols } = definition.params;
    const question = questionOf(cohort);
    return (value) => {
      const [o, d] = sides.pairOf(metric, value);
      return oneBit(symbolOf(question, sides.classOf(question, o, d), cohort, symbols), (symbols + 7) >> 3);
    };
  },
  values: () => [],
  take: ({ name }) => {
    throw new ValueRefusedError("wrong_points", name, "fixes");
  },
  places: actsOf(
    ({ metrics }, name) => [metricOf(metrics, name)],
    ([metric], secret, send, saved) => new FlowVisits(metric!, secret, send, saved, h3),
  ),
});
