/** In the production build `rappor metrics compile` has checked what check.ts checks. */

import type { Definition } from "../core/metrics.js";

/** Whether the table is there. Throws MetricsFileError. */
export const checkDiscover = (definition: Definition, tableOf: (definition: Definition) => string): undefined => void tableOf(definition);
