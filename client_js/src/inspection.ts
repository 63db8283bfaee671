/** What a device holds and has told, as text for the person whose device it is. */

import type { DeviceAccount, LineAccount } from "./account.js";
import { valueOf, type Bound } from "./core/state.js";

const epsilonText = (nats: Bound): string => (nats === null ? "no bound" : `epsilon ${nats.toFixed(2)}`);

/** What an epsilon means for a person (the likelihood ratio that it bounds). */
const odds = (nats: Bound): string =>
  `Whoever saw them all could change the odds between any two answers by a factor of at most ` +
  `${Math.exp(Math.min(valueOf(nats), 700)).toPrecision(3)} (${epsilonText(nats)}).`;

const lineText = (name: string, line: LineAccount | "damaged"): string =>
  line === "damaged"
    ? `${name}: what was told is not known any more, and nothing more will be.`
    : `${name}: ${line.reports} reports were made, about ${line.values} of at most ${line.maxValues} answers. ${odds(line.spent)} ` +
      `However long this goes on, it stays at or below ${epsilonText(line.ever)}.`;

/** The account of `Client.inspect` or `inspectState` as text. */
export const render = ({ consent, budget, waiting, batches, counters, metrics }: DeviceAccount): string => {
  const lines = Object.entries(metrics);
  const nats = lines.reduce((sum, [, line]) => sum + (line === "damaged" ? Infinity : valueOf(line.spent)), 0);
  const bound = budget === null ? "No bound over all metrics is declared." : `Allowed are ${budget}.`;
  return [
    `Consent: ${consent ? "given" : "not given; nothing is recorded"}`,
    `Waiting: ${waiting} reports, ${batches} batches of them not yet acknowledged`,
    "",
    "What became of reports:",
    ...Object.entries(counters).sort().map(([name, number]) => `  ${name}: ${number}`),
    "",
    ...lines.map(([name, line]) => lineText(name, line)),
    "",
    `This device, all metrics together: ${odds(nats === Infinity ? null : nats)} ${bound}`,
  ].join("\n");
};
