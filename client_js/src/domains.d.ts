import type { PackagedTable } from "./discover.js";

/** The public code table of names of domains, for `discover({ domains })`. `npm run build` writes it. */
export declare const domains: PackagedTable;
