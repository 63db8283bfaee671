/** Batches as JSON (docs/protocol.md, "Batch, JSON"): for tests and audits; devices send the binary form. */

import { utf8 } from "./bytes.js";
import { dateText } from "./days.js";
import type { QueuedReport } from "./state.js";

export const JSON_TYPE = "application/json";

/** The JSON form. id: 32 hexadecimal digits. */
export const encodeJson = (id: string, reports: readonly QueuedReport[]): Uint8Array =>
  utf8(
    JSON.stringify({
      version: 1,
      batch_id: id,
      reports: reports.map(({ metric, params_id, cohort, day, bits }) => ({
        metric,
        params_id,
        cohort,
        day: dateText(day),
        bits,
      })),
    }),
  );
