// Numbers, coded prefixes, and pairs end to end: many clients in Node, the real
// collector on loopback, `rappor` to decode. Noise is small, so that few devices are enough.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { dateText } from "../dist/core/days.js";
import { discover } from "../dist/discover.js";
import { domains } from "../dist/domains.js";
import { Client, MemoryStorage } from "../dist/index.js";
import { numbers } from "../dist/numbers.js";
import { pairs } from "../dist/pairs.js";
import { noCollector, startCollector } from "./collector.mjs";

const DEVICES = 256;
const COMMON = 'description = "d"\nowner = "o@example.org"\nexpires = 2099-12-31\nmin_reports = 20\nmin_reports_per_cohort = 1\n';
const TOML = `
[metrics.crashes]
kind = "number"
${COMMON}unit = "crashes"
of_period = "sum"
whole = true
edges = [1, 2, 4]
none = "zero"
mode = "memo"
epsilon_infinity = 9.0
epsilon_one = 8.0

[metrics.startup]
kind = "number"
${COMMON}unit = "ms"
of_period = "median"
edges = { scale = "log", from = 100, to = 10000, bins = 4 }
none = "apart"
mode = "once"
epsilon = 8.0

[metrics.site]
kind = "discover"
${COMMON}epsilon_infinity = 8.0
max_reports = 1
max_memoized_values = 2
fallback = "other"
num_levels = 3
num_cohorts = 20
num_bits = 256

[metrics.theme]
kind = "category"
${COMMON}categories = ["light", "dark"]
max_memoized_values = 2
mechanism = "l-osue"
epsilon_infinity = 10.0
epsilon_one = 8.0

[metrics.slow]
kind = "boolean"
${COMMON}epsilon_infinity = 9.0
epsilon_one = 8.0

[metrics.theme_slow]
kind = "pair"
${COMMON}of = ["theme", "slow"]
mechanism = "l-osue"
epsilon_infinity = 10.0
epsilon_one = 8.0
max_memoized_values = 4
`;

const TODAY = Math.floor(Date.now() / 86_400_000);
const DAY = TODAY - 2;
// 7 of 8: of 1,500 drawn collections of this size the search found it in all; of 300 with 3 of 4 and
// 128 devices it missed it in 20.
const siteOf = (i) => (i % 8 ? "example.org" : "rare.example.net");
const crashesOf = (i) => [0, 1, 2, 5][i % 4]; // a quarter each
const startupOf = (i) => [50, 200, 700, 20_000, undefined][i % 5];
const isDark = (i) => i % 3 === 0;
const isSlow = (i) => (isDark(i) ? i % 2 === 0 : i % 10 === 0); // half of the dark, a tenth of the light

/** One device: what it records on a day, delivered on the next. */
const live = async (i, metrics, collector) => {
  let day = DAY;
  const client = await Client.open({ metrics, collector, storage: new MemoryStorage(), platform: "app", consent: true, development: true,
    kinds: [numbers(), pairs(), discover({ domains })], doNotTrack: () => false,
    clock: () => day * 86_400 + 43_200, delivery: { meanDelay: 3600 } });
  for (let left = crashesOf(i); left > 0; left--) await client.add("crashes");
  if (startupOf(i) !== undefined) await client.record("startup", startupOf(i));
  await client.record("site", siteOf(i));
  await client.record("theme", isDark(i) ? "dark" : "light");
  await client.record("slow", isSlow(i));
  await client.record("theme_slow", [isDark(i) ? "dark" : "light", isSlow(i)]);
  day += 1; // the day of the numbers is over
  assert.ok(await client.flush(60), client.lastError);
  const { waiting, counters } = await client.inspect();
  assert.equal(waiting, 0);
  assert.deepEqual(Object.keys(counters).filter((name) => !name.startsWith("accepted:")), []);
  await client.close();
};

/** Rows of a csv file as objects; no text in it holds a comma or a quote. */
const rowsOf = (text) => {
  const [head, ...rows] = text.trim().split("\n").map((line) => line.replaceAll('"', "").split(","));
  return rows.map((row) => Object.fromEntries(head.map((name, at) => [name, row[at]])));
};

const shareOf = (holds) => Array.from({ length: DEVICES }, (_, i) => (holds(i) ? 1 / DEVICES : 0)).reduce((sum, part) => sum + part, 0);

/** Within five standard errors, a false alarm in a million where errors are normal, and four devices:
 * noise this small comes as single flipped bits, about one in twelve collections. */
const agrees = (row, column, wanted, what) =>
  assert.ok(Math.abs(Number(row[column]) - wanted) <= 5 * Number(row.std_error) + 4 / DEVICES, `${what}: ${row[column]} +- ${row.std_error}, not ${wanted}`);

test("every new kind arrives, and is decoded to what was recorded", { skip: noCollector }, async (t) => {
  const { folder, metrics, direct, rappor, database, counted } = await startCollector(t, {}, {}, TOML);
  for (let first = 0; first < DEVICES; first += 16) {
    await Promise.all(Array.from({ length: 16 }, (_, i) => live(first + i, metrics, direct)));
  }
  const names = ["crashes", "startup", "site", "theme", "slow", "theme_slow"];
  assert.deepEqual(counted(), Object.fromEntries(names.map((name) => [name, DEVICES])));
  const from = (words, name) => [...words, "--collector", direct, "-o", join(folder, name)];
  const decoded = ["crashes", "startup", "theme_slow"].map((name) => from(["decode", "--metric", name], name));
  rappor(
    ["close", dateText(DAY), "--yes", "--database", database],
    ...decoded,
    from(["discover", "site", "--crowd", "20"], "site"),
  );
  const read = (name, file) => rowsOf(readFileSync(join(folder, name, file), "utf8"));

  for (const row of read("crashes", "curve.csv")) agrees(row, "at_or_above", shareOf((i) => crashesOf(i) >= row.edge), `crashes ${row.edge}`);
  const reported = shareOf((i) => startupOf(i) !== undefined);
  for (const row of read("startup", "curve.csv")) agrees(row, "at_or_above", shareOf((i) => startupOf(i) >= row.edge) / reported, `startup ${row.edge}`);
  const cells = read("theme_slow", "joint.csv");
  assert.equal(cells.length, 4);
  for (const row of cells) {
    agrees(row, "estimate", shareOf((i) => isDark(i) === (row.first === "dark") && isSlow(i) === (row.second === "true")), `${row.first} ${row.second}`);
  }
  const [first] = read("site", "discovered.csv");
  assert.ok(first, "no string was found");
  assert.deepEqual([first.string, first.whole], ["example.org", "yes"]);
  agrees(first, "estimate", shareOf((i) => siteOf(i) === "example.org"), "example.org");
});
