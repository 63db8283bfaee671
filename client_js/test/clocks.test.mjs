// Clocks before 1970: nothing is thrown, and what is recorded is sent with the first day that there is.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, MemoryStorage, readMetrics } from "../dist/node.js";
import { discover } from "../dist/discover.js";
import { domains } from "../dist/domains.js";
import { flows } from "../dist/flows.js";
import { numbers } from "../dist/numbers.js";
import { pairs } from "../dist/pairs.js";
import { places } from "../dist/places.js";
import { MemoryCollector } from "../dist/testing.js";
import { vectors } from "./vectors.mjs";

const DAY = 86_400;
const { good } = vectors("compiled");
const kinds = [numbers(), pairs(), discover({ domains }), flows()];
const FILES = Object.entries(good);

for (const [word, seconds] of Object.entries({ "a second before 1970": -1, "a year before it": -365 * DAY, "1901": -2_147_483_648, "the year 1": -62_135_596_800, "the first day": 0 })) {
  test(`a clock that says ${word}`, async () => {
    for (const [name, { document }] of FILES) {
      let now = seconds;
      const part = { places: places(), kinds };
      const collector = new MemoryCollector(readMetrics(document, part.places, kinds));
      const client = await Client.open({ metrics: document, ...part, storage: new MemoryStorage(), collector: "http://127.0.0.1:1", consent: true,
        doNotTrack: () => false, transport: collector.transport, clock: () => now, delivery: { meanDelay: 3600, firstPause: 0.001, longestPause: 0.002 } });
      assert.equal(client.status.condition, "active", name);
      const said = [];
      for (let day = 0; day < 40; day += 8) {
        for (const { definition } of document.metrics) {
          const base = definition.name.split("/")[0];
          const value = { boolean: true, number: 3, pair: ["light", true], category: definition.categories[0] }[definition.kind] ?? "x";
          said.push(await (["location", "flow"].includes(definition.kind) ? client.recordLocation(base, 40.7, -74) : client.record(base, value)));
        }
        now += 8 * DAY;
      }
      await client.flush(0.2);
      const { status, waiting, notRecorded, counters } = await client.inspect();
      assert.match(status.condition, /^(active|not_delivered)$/, `${name} ${status.sentence}`);
      const mistakes = Object.keys(notRecorded).filter((reason) => !/ValueRefusedError|UnknownMetricError/.test(reason));
      assert.deepEqual(mistakes, [], name);
      assert.ok(collector.reports.length && !Object.keys(counters).some((counter) => counter.startsWith("dropped")), `${name} ${JSON.stringify(counters)}`);
      assert.ok(waiting === 0 && collector.reports.every(({ day }) => day >= 0), `${name} ${waiting} ${JSON.stringify(collector.reports[0])}`);
      await client.setConsent(false);
      await client.close();
    }
  });
}
