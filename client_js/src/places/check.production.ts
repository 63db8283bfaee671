/** In the production build `rappor metrics compile` has checked what check.ts checks. */

import { MetricsFileError } from "../core/errors.js";
import type { Definition, Place } from "../core/metrics.js";
import type { H3 } from "./h3.js";

/** Whether the grid's library is there. Throws MetricsFileError. */
export const checkPlace = ({ name, location }: Definition & { readonly location: Place }, h3: H3 | undefined): void => {
  if (location.grid.kind === "h3" && !h3) throw new MetricsFileError("h3_missing", name);
};
