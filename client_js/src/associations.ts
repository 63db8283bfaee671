/** The part for files with associations: pass `associations()` to `open`. */

import { checkAssociations } from "./associations/check.js";
import { encodeLinked } from "./associations/batch.js";
import { DAY_SECONDS, dayOf } from "./core/days.js";
import type { Associations, Link, MakeBatch } from "./core/kinds.js";
import type { Association, Compiled, Metric } from "./core/metrics.js";
import type { QueuedReport, Transaction } from "./core/state.js";

/** A report that waits, by its key. */
type Row = [string, QueuedReport];

/** Which side of which association a report is of; or undefined. */
type SideOf = (report: QueuedReport) => { readonly of: Association; readonly side: 0 | 1 } | undefined;

const sidesOf = (associations: readonly Association[]): SideOf => {
  const known = new Map(
    associations.flatMap((of) => ([0, 1] as const).map((side) => [`${of.of[side]} ${of.params_ids[side]}`, { of, side }] as const)),
  );
  return ({ metric, params_id: id }) => known.get(`${metric} ${id}`);
};

/** Those of one association and day, by side. */
interface Waiting {
  readonly of: Association;
  readonly day: number;
  readonly rows: readonly [Row[], Row[]];
}

/** Reports that leave alone, and those that wait for their other or have it. */
const sortOut = (rows: readonly Row[], sideOf: SideOf): { free: Row[]; waiting: Waiting[] } => {
  const free: Row[] = [];
  const waiting = new Map<string, Waiting>();
  for (const row of rows) {
    const found = sideOf(row[1]);
    const { day } = row[1];
    if (!found || day > dayOf(found.of.expires)) {
      free.push(row);
      continue;
    }
    const key = `${found.of.name} ${day}`;
    const group = waiting.get(key) ?? { of: found.of, day, rows: [[], []] };
    waiting.set(key, group);
    group.rows[found.side].push(row);
  }
  return { free, waiting: [...waiting.values()] };
};

/** Two linked reports make a batch; one of today that lacks its other waits; the rest is alone. */
const linkOf = (compiled: Compiled, metrics: ReadonlyMap<string, Metric>): Link => {
  const sideOf = sidesOf(compiled.associations!.map(({ definition }) => definition));
  const cohortsOf = ({ metric }: QueuedReport): number => metrics.get(metric)!.definition.params.num_cohorts;
  const fit = (first: QueuedReport, second: QueuedReport): boolean =>
    first.cohort === second.cohort || cohortsOf(first) === 1 || cohortsOf(second) === 1;
  return (store: Transaction, queued: readonly Row[], now: number, make: MakeBatch) => {
    const { free, waiting } = sortOut(queued, sideOf);
    for (const { day, rows: [firsts, seconds] } of waiting) {
      while (firsts.length && seconds.length && fit(firsts.at(-1)![1], seconds.at(-1)![1])) {
        const pair = [firsts.pop()!, seconds.pop()!];
        for (const [key] of pair) store.remove(key);
        make(pair.map(([, report]) => report), encodeLinked);
      }
      if (day !== Math.floor(now / DAY_SECONDS) || (firsts.length && seconds.length)) free.push(...firsts, ...seconds);
    }
    return free;
  };
};

/** Two metrics whose reports of a day travel together, in batches of version 2. */
export const associations = (): Associations => ({
  link: (compiled, metrics) => {
    checkAssociations(compiled, metrics);
    return linkOf(compiled, metrics);
  },
});
