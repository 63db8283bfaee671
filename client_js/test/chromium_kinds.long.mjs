// The kinds that have parts of their own, in real Chromium over IndexedDB against the real
// collector: two tabs, reload, kill, offline, no room. The client is the build that apps ship.

import assert from "node:assert/strict";
import { performance } from "node:perf_hooks";
import { test } from "node:test";
import { kill, launch, pages, skip, tab } from "./browser.mjs";
import { startCollector } from "./collector.mjs";

const COMMON = 'description = "d"\nowner = "o@example.org"\nexpires = 2099-12-31\n';
const WEB = 'platforms = ["app", "web"]\nlives = 3\n';
const TOML = `
[metrics.crashes]
kind = "number"
${COMMON}${WEB}unit = "crashes"
of_period = "sum"
whole = true
edges = [1, 2, 4, 50]
none = "zero"
mode = "memo"
epsilon_infinity = 9.0
epsilon_one = 8.0
max_reports = 50

[metrics.startup]
kind = "number"
${COMMON}${WEB}unit = "ms"
of_period = "median"
edges = { scale = "log", from = 100, to = 10000, bins = 4 }
none = "apart"
mode = "memo"
epsilon_infinity = 9.0
epsilon_one = 8.0
max_reports = 50

[metrics.site]
kind = "discover"
${COMMON}${WEB}epsilon_infinity = 8.0
epsilon_one = 5.0
max_reports = 10000
max_reports_per_period = 1000
max_memoized_values = 4
fallback = "other"
num_levels = 4
num_cohorts = 20
num_bits = 256

[metrics.theme_slow]
kind = "pair"
${COMMON}${WEB}of = ["theme", "slow"]
mechanism = "l-osue"
epsilon_infinity = 10.0
epsilon_one = 8.0
max_memoized_values = 4
max_reports = 10000
max_reports_per_period = 1000

[metrics.spot]
kind = "location"
${COMMON}${WEB}grid = "square"
rows = 4
columns = 4
box = [42.0, -73.0, 43.0, -72.0]
levels = [0, 1]
slots = ["night 22-6", "day 6-22"]
mode = "memo"
no_data = "no_data"
max_memoized_values = 5
max_reports = 50
num_bits = 64
num_hashes = 2
num_cohorts = 4
prob_f = 0.25
prob_p = 0.25
prob_q = 0.75

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
`;

const ENTRY = `
import { openClient } from "./dist/production/browser.js";
import { discover } from "./dist/production/discover.js";
import { domains } from "./dist/production/domains.js";
import { numbers } from "./dist/production/numbers.js";
import { pairs } from "./dist/production/pairs.js";
import { places } from "./dist/production/places.js";
import * as checked from "./dist/places.js";
import { fromHex, toHex } from "./dist/core/bytes.js";
import { MetricEncoder } from "./dist/core/device.js";
import { readMetrics } from "./dist/core/reading.js";
import { discover as discoverOf } from "./dist/discover.js";
import { numbers as numbersOf } from "./dist/numbers.js";
import { pairs as pairsOf } from "./dist/pairs.js";
window.open_ = async (metrics, { now, ...more }) => {
  window.now = now;
  window.metrics = metrics;
  window.client = await openClient({
    metrics, collector: location.origin, consent: true, doNotTrack: () => false, clock: () => window.now,
    places: places(), kinds: [numbers(), pairs(), discover({ domains })],
    delivery: { meanDelay: 3600, firstPause: 0.01, longestPause: 0.05 }, platform: "app", ...more });
  return client.status.condition;
};
window.documents = () => new Promise((resolve) => {
  indexedDB.open("rappor-telemetry").onsuccess = ({ target: { result: database } }) => {
    const store = database.transaction("documents").objectStore("documents");
    const [keys, values] = [store.getAllKeys(), store.getAll()];
    values.onsuccess = () => {
      database.close();
      resolve(Object.fromEntries(keys.result.map((key, at) => [key, values.result[at]])));
    };
  };
});
// B' of each value by the stored secret, and whether the ledger holds it.
window.responses = async (values) => {
  const kept = await documents();
  const { metrics: read } = readMetrics(metrics, checked.places(), [numbersOf(), pairsOf(), discoverOf({ domains })]);
  return values.map(([name, value]) => {
    const metric = read.get(name);
    const device = new MetricEncoder(metric, fromHex(kept.device.secret), (n) => new Uint8Array(n));
    const bits = device.valueBits(value);
    return [name, toHex(device.permanentBits(bits)), device.digest(bits) in (kept["line/" + metric.line]?.entries ?? {})];
  });
};
// What runs in a period so far: the sum, and how many numbers the median is of.
window.running = async () => {
  const kept = await documents();
  return ["crashes", "startup"].map((name) => JSON.parse(kept["line/" + name].note).kept[0]);
};
window.each = (theme, slow, site) => [
  ["crashes", () => client.add("crashes")], ["startup", () => client.record("startup", 700)], ["site", () => client.record("site", site)],
  ["theme_slow", () => client.record("theme_slow", [theme, slow])], ["spot", () => client.recordLocation("spot", 42.1, -72.9)],
  ["theme", () => client.record("theme", theme)], ["slow", () => client.record("slow", slow)]];
window.all = async () => {
  const said = {};
  for (const [name, act] of each("dark", true, "example.org")) said[name] = await act();
  return said;
};
window.forEver = async () => {
  for (;;) {
    for (const [name, act] of each("dark", true, "example.org").slice(0, 5)) {
      await window.begun(name);
      if (!(await act())) throw new Error(client.lastRefusal);
      window.told(name);
    }
  }
};
`;

const TODAY = Math.floor(Date.now() / 86_400_000);
const noon = (day) => day * 86_400 + 43_200;
const VALUES = [["crashes", 20], ["startup", 700], ["site", "example.org"], ["theme_slow", ["dark", true]], ["theme", "dark"], ["slow", true],
  ...[0, 1].flatMap((level) => ["0-0-0", "other", "no_data"].map((place) => [`spot/day/${level}`, place]))];
const TIMES = { timezoneId: "UTC" };

const responses = (page) => page.evaluate((values) => window.responses(values), VALUES);
const flush = (page) => page.evaluate(() => window.client.flush(20));
const sumOf = (counted, line) => Object.entries(counted).reduce((sum, [name, reports]) => sum + (name.split("/")[0] === line ? reports : 0), 0);
const everywhere = (pages_, act, ...of) => Promise.all(pages_.map((page) => page.evaluate(act, ...of)));

test("every kind over tabs, no room, reload and offline: each record counts once, each response stays", { skip }, async (t) => {
  const collector = await startCollector(t, await pages(ENTRY), {}, TOML);
  const context = await launch(collector, TIMES);
  const devtools = await context.newCDPSession(await context.newPage());
  const room = (quotaSize) => devtools.send("Storage.overrideQuotaForOrigin", { origin: new URL(collector.url).origin, quotaSize });
  await room(150_000); // Chromium asks what is left once, and counts down
  const open = () => tab(context, collector, { now: noon(TODAY - 3) });
  const tabs = [await open(), await open()];
  const [one, two] = tabs;

  const said = await everywhere(tabs, async () => {
    for (let i = 0; i < 9; i++) if (!(await client.add("crashes")) || !(await client.record("startup", 700))) throw new Error(client.lastRefusal);
    return all();
  });
  for (const name of ["crashes", "startup", "site", "theme_slow", "spot"]) assert.deepEqual(said.map((row) => row[name]), [true, true], name);
  for (const name of ["theme", "slow"]) assert.deepEqual(said.map((row) => row[name]).sort(), [false, true], name); // one a day
  assert.deepEqual(await one.evaluate(() => running()), [20, 20]);
  const web = await tab(context, collector, { now: noon(TODAY - 3), platform: "web", database: "of the web" });
  assert.deepEqual(await web.evaluate(() => all()), { crashes: true, startup: true, site: true, theme_slow: true, spot: true, theme: false, slow: false });
  assert.equal(await web.evaluate(() => client.lastRefusal), "elsewhere slow"); // it is for apps

  const more = await two.evaluate(async () => {
    let told = 0;
    while (told < 900 && (await client.record("site", "example.org"))) told++;
    return told;
  });
  const before = await one.evaluate(() => documents());
  const full = await one.evaluate(async () => [await all(), client.status.condition]);
  assert.deepEqual([new Set(Object.values(full[0])), full[1]], [new Set([false]), "state_unavailable"]);
  assert.deepEqual(await one.evaluate(() => documents()), before); // nothing of it is kept
  await room(undefined);

  const made = await responses(one);
  await one.reload();
  await one.waitForFunction("window.open_");
  assert.equal(await one.evaluate(([m, now]) => window.open_(m, { now }), [collector.metrics, noon(TODAY - 3)]), "active");
  assert.deepEqual(await responses(one), made);
  assert.deepEqual(await one.evaluate(() => running()), [20, 20]);

  await everywhere(tabs, (now) => void (window.now = now), noon(TODAY - 2)); // both see that the day is over
  await context.setOffline(true);
  const next = await everywhere(tabs, () => all());
  for (const name of ["theme", "slow"]) assert.deepEqual(next.map((row) => row[name]).sort(), [false, true], name);
  assert.equal(await one.evaluate(() => client.flush(0.3)), false);
  const held = await responses(one);
  assert.deepEqual(held.map(([name, bits]) => [name, bits]), made.map(([name, bits]) => [name, bits]));
  assert.ok(held.slice(0, 6).every(([, , isHeld]) => isHeld), JSON.stringify(held));
  await context.setOffline(false);
  collector.faults.push(500, "after", "garbage", "before", 429);
  assert.deepEqual(await everywhere(tabs, () => client.flush(20)), [true, true]);
  await everywhere(tabs, (now) => void (window.now = now), noon(TODAY - 1));
  await web.evaluate((now) => void (window.now = now), noon(TODAY - 2));
  assert.deepEqual(await Promise.all([...tabs, web].map(flush)), [true, true, true]);

  const counted = collector.counted();
  assert.equal(sumOf(counted, "spot"), 6); // two slots, two days; and one day of the other database
  const rest = Object.fromEntries(Object.entries(counted).filter(([name]) => !name.startsWith("spot")));
  assert.deepEqual(rest, { crashes: 3, startup: 3, site: 5 + more, theme_slow: 5, theme: 2, slow: 2 });
  const { counters } = await one.evaluate(() => client.inspect());
  assert.deepEqual(Object.keys(counters).filter((name) => !/^(accepted|full):/.test(name)), []);
});

test("a browser that is killed keeps sums, places and pairs that it acknowledged", { skip }, async (t) => {
  const collector = await startCollector(t, await pages(ENTRY), {}, TOML);
  const [begun, told] = [{}, {}];
  const add = (to) => (name) => void (to[name] = (to[name] ?? 0) + 1);
  let made;
  for (let life = 0; life < 2; life++) {
    const context = await launch(collector, TIMES);
    await context.exposeFunction("begun", add(begun));
    await context.exposeFunction("told", add(told));
    const page = await tab(context, collector, { now: noon(TODAY - 3) });
    if (life) assert.deepEqual(await responses(page).then((rows) => rows.map(([, bits]) => bits)), made);
    made = (await responses(page)).map(([, bits]) => bits);
    page.evaluate(() => window.forEver()).catch(() => undefined);
    const wanted = (told.spot ?? 0) + 20;
    for (const end = performance.now() + 10_000; !(told.spot >= wanted) && performance.now() < end; ) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    const ended = new Promise((resolve) => context.once("close", resolve));
    kill(collector.folder);
    await ended;
  }
  const page = await tab(await launch(collector, TIMES), collector, { now: noon(TODAY - 3) });
  const within = (name, number) => assert.ok(told[name] >= 40 && told[name] <= number && number <= begun[name], `${name}: ${begun[name]} begun, ${told[name]} told, ${number}`);
  const [sum, numbers] = await page.evaluate(() => running());
  within("crashes", sum);
  within("startup", numbers);
  await page.evaluate((now) => void (window.now = now), noon(TODAY - 2));
  assert.ok(await flush(page));
  const counted = collector.counted();
  for (const name of ["site", "theme_slow"]) within(name, counted[name]);
  assert.deepEqual([counted.crashes, counted.startup, sumOf(counted, "spot")], [1, 1, 2]);
  assert.deepEqual((await responses(page)).map(([, bits]) => bits), made);
});
