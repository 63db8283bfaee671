/** In the production build `rappor metrics compile` has checked what check.ts checks. */

import { MetricsFileError } from "../core/errors.js";
import type { Definition } from "../core/metrics.js";
import type { H3 } from "../places/h3.js";
import { flowOf } from "./classes.js";

/** Whether the grid's library is there. Throws MetricsFileError. */
export const checkFlow = (definition: Definition, h3: H3 | undefined): undefined => {
  if (flowOf(definition).grid.kind === "h3" && !h3?.cellToBoundary) throw new MetricsFileError("h3_missing", definition.name);
};
