/** What a device holds and has sent, as text for the person whose device it is. */

import type { DeviceAccount, LineAccount } from "./account.js";
import { valueOf, type Bound } from "./core/state.js";

const PRIOR = 0.01; // of the example, as rappor_core/risk.py has it: how likely an answer was thought before

/** The most that a suspicion can become by what an epsilon bounds (Bayes' rule), in per cent, rounded up. */
const believed = (nats: Bound): string => {
  const share = 1 / (1 + ((1 - PRIOR) / PRIOR) * Math.exp(-valueOf(nats)));
  const factor = share < 0.1 ? 100 : 10;
  const percent = Math.min(Math.ceil(100 * share * factor - 1e-9) / factor, 100);
  return `${percent} % (${nats === null ? "no bound" : `epsilon ${nats.toFixed(2)}`})`;
};

const risk = (nats: Bound): string =>
  `Someone who is ${100 * PRIOR} % sure an answer is yours can be at most ${believed(nats)} sure after what was sent so far`;

const lineText = (name: string, line: LineAccount | "damaged"): string =>
  line === "damaged"
    ? `${name}: what was sent is not known any more, and nothing more will be sent.`
    : `${name}: reports made: ${line.reports}; different answers: ${line.answers} of at most ${line.maxValues}. ${risk(line.spent)}, ` +
      `and at most ${believed(line.ever)} sure after everything this storage ever sends about it.`;

/** The account of `Client.inspect` or `inspectState` as text. */
export const render = ({ consent, budget, waiting, batches, counters, metrics, stopped }: DeviceAccount): string => {
  const lines = Object.entries(metrics);
  const nats = lines.reduce((sum, [, line]) => sum + (line === "damaged" ? Infinity : valueOf(line.spent)), 0);
  const bound = budget === null ? "no bound over all metrics is declared" : `of ${budget} allowed`;
  return [
    `Consent: ${consent ? "given" : "not given; nothing is recorded"}`,
    `Reports waiting: ${waiting}; batches of them not yet acknowledged: ${batches}`,
    "",
    "What became of reports:",
    ...Object.entries(counters).sort().map(([name, number]) => `  ${name}: ${number}`),
    "",
    ...lines.map(([name, line]) => lineText(name, line)),
    ...Object.entries(stopped).map(([name, reason]) =>
      `${name}: the collector ${reason === "metric_paused" ? "has paused it; nothing of it is recorded but one report a day" : "collects it no more; nothing of it is recorded"}.`),
    "",
    `This device, all metrics together: ${risk(nats === Infinity ? null : nats)} (${bound}).`,
  ].join("\n");
};
