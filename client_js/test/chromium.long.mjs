// Real Chromium against the real collector: tabs, reload, kill, offline, answers that are none. The
// client is the build that apps ship.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { CHROMIUM, kill, launch, pages, skip, tab } from "./browser.mjs";
import { digestOf } from "../dist/core/seal.js";
import { startCollector } from "./collector.mjs";
import { vectors } from "./vectors.mjs";

const ENTRY = `
import { openClient } from "./dist/production/browser.js";
import { MetricEncoder } from "./dist/core/device.js";
import { readMetrics } from "./dist/core/reading.js";
window.open_ = async (metrics, more = {}) => {
  window.client = await openClient({
    metrics, collector: location.origin, consent: true, doNotTrack: () => false,
    delivery: { meanDelay: 3600, firstPause: 0.01, longestPause: 0.05 }, ...more });
  return client.status.condition;
};
window.record = async (number) => {
  for (let i = 0; i < number; i++) {
    await window.begun?.();
    if (!(await client.record("homepage", "value " + (i % 3)))) throw new Error(client.lastRefusal);
    window.told?.();
  }
};
window.speed = (metrics) => {
  const { metrics: read } = readMetrics(metrics);
  const device = new MetricEncoder(read.get("homepage"), new Uint8Array(32),
    (n) => crypto.getRandomValues(new Uint8Array(n)));
  const time = (value, number) => {
    const start = performance.now();
    for (let i = 0; i < number; i++) { const bits = device.valueBits(value(i)); device.digest(bits); device.reportBits(bits); }
    return (performance.now() - start) * 1000 / number;
  };
  time((i) => "warm" + i, 5000);
  return { fresh: time((i) => "https://example.org/page/" + i, 5000), known: time(() => "known", 20000) };
};
window.durable = async (number) => {
  const times = [];
  for (let i = 0; i < number; i++) { const start = performance.now(); await record(1); times.push(performance.now() - start); }
  return times.sort((a, b) => a - b)[number >> 1];
};
`;

const flush = (page) => page.evaluate(() => window.client.flush(20));

test("tabs, reloads, faults, offline: every record counts once", { skip }, async (t) => {
  const collector = await startCollector(t, await pages(ENTRY));
  const context = await launch(collector);
  const tabs = [await tab(context, collector), await tab(context, collector)];
  await Promise.all(tabs.map((page) => page.evaluate(() => window.record(40))));
  collector.faults.push(500, 503, 429, "garbage", "before", "after", 302, 500);
  assert.deepEqual(await Promise.all(tabs.map(flush)), [true, true]);
  assert.deepEqual(collector.counted(), { homepage: 80 });

  await tabs[0].evaluate(() => window.record(5));
  await tabs[0].reload();
  await tabs[0].waitForFunction("window.open_");
  await tabs[0].evaluate((m) => window.open_(m), collector.metrics);
  await context.setOffline(true);
  await tabs[0].evaluate(() => window.record(5));
  assert.equal(await tabs[0].evaluate(() => window.client.flush(0.3)), false);
  await context.setOffline(false);
  assert.ok(await flush(tabs[0]));
  assert.deepEqual(collector.counted(), { homepage: 90 });
  const account = await tabs[1].evaluate(() => window.client.inspect());
  assert.equal(account.counters["accepted:homepage"], 90);
  assert.equal(account.metrics.homepage.values, 4);

  await tabs[1].evaluate(() => window.client.setConsent(false));
  assert.equal(await tabs[0].evaluate(() => window.client.record("homepage", "x")), false);
  assert.equal(await tabs[0].evaluate(() => window.client.status.condition), "no_consent");
});

test("tabs that open for the first time at the same moment share one secret", { skip }, async (t) => {
  const served = await pages(ENTRY);
  const site = createServer((asked, answer) => {
    const [type, text] = served[asked.url] ?? ["text/plain", ""];
    answer.writeHead(200, { "Content-Type": type }).end(text);
  });
  await new Promise((resolve) => site.listen(0, "127.0.0.1", resolve));
  t.after(() => void (site.closeAllConnections(), site.close()));
  const folder = mkdtempSync(join(tmpdir(), "rappor-js-"));
  const endings = [() => rmSync(folder, { recursive: true, force: true })];
  t.after(async () => { for (const end of endings.reverse()) await end(); });
  const context = await launch({ folder, endings });
  const tabs = await Promise.all(Array.from({ length: 6 }, () => context.newPage()));
  await Promise.all(tabs.map(async (page) => {
    await page.goto(`http://127.0.0.1:${site.address().port}/`);
    await page.waitForFunction("window.open_");
  }));
  const { document } = vectors("platforms");
  const metrics = { ...document, digest: digestOf(document) };
  for (let round = 0; round < 5; round++) {
    const at = Date.now() + 300;
    const opened = await Promise.all(tabs.map((page) => page.evaluate(async ([m, round, at]) => {
      const database = `round ${round}`;
      await new Promise((resolve) => setTimeout(resolve, at - Date.now()));
      const condition = await window.open_(m, { database, platform: "app" });
      const told = await client.record("page", "a"); // one of them has the report of this day
      const kept = await new Promise((resolve) => {
        indexedDB.open(database).onsuccess = ({ target: { result: known } }) => {
          known.transaction("documents").objectStore("documents").get("device").onsuccess = ({ target }) => resolve(target.result);
        };
      });
      return { condition, told, secret: kept.secret };
    }, [metrics, round, at])));
    assert.deepEqual(opened.map(({ condition }) => condition), Array(6).fill("active"));
    assert.equal(new Set(opened.map(({ secret }) => secret)).size, 1);
    assert.equal(opened.filter(({ told }) => told).length, 1);
  }
});

test("a browser that is killed loses no acknowledged record", { skip }, async (t) => {
  const collector = await startCollector(t, await pages(ENTRY));
  let [begun, told] = [0, 0];
  for (let life = 0; life < 2; life++) {
    const context = await launch(collector);
    await context.exposeFunction("begun", () => void begun++);
    await context.exposeFunction("told", () => void told++);
    const page = await tab(context, collector);
    page.evaluate(() => window.record(1e6)).catch(() => undefined);
    const wanted = told + 100;
    for (const end = performance.now() + 10_000; told < wanted && performance.now() < end; ) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    const ended = new Promise((resolve) => context.once("close", resolve));
    kill(collector.folder);
    await ended;
  }
  const page = await tab(await launch(collector), collector);
  assert.ok(await flush(page));
  const { homepage } = collector.counted();
  assert.ok(told >= 200 && told <= homepage && homepage <= begun, `${begun} begun, ${told} told, ${homepage} counted`);
});

test("a page that is left sends nothing by itself, unless the app asks for it", { skip }, async (t) => {
  const collector = await startCollector(t, await pages(ENTRY));
  const context = await launch(collector);
  const page = await tab(context, collector);
  await page.evaluate(() => window.record(3));
  await page.evaluate(() => {
    Object.defineProperty(document, "visibilityState", { value: "hidden" });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await new Promise((resolve) => setTimeout(resolve, 500));
  await page.goto("about:blank");
  await new Promise((resolve) => setTimeout(resolve, 1000));
  assert.equal(collector.seen.batches, 0);
  const again = await tab(context, collector, { sendWhenHidden: true });
  await again.evaluate(() => window.record(1));
  await again.evaluate(() => { // as where the person looks at another tab, which no headless tab is told
    Object.defineProperty(document, "visibilityState", { value: "hidden" });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  for (let i = 0; i < 250 && !collector.seen.batches; i++) await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(collector.seen.batches, 1);
  const last = await tab(context, collector);
  assert.ok(await flush(last));
  assert.deepEqual(collector.counted(), { homepage: 4 });
});

test("a browser records what is declared for it, and says so of the rest", { skip }, async (t) => {
  const collector = await startCollector(t, await pages(ENTRY));
  const page = await tab(await launch(collector), collector, { development: true });
  const said = await page.evaluate(async () => [await client.record("crashed", true), client.lastRefusal, await client.record("homepage", "x")]);
  assert.deepEqual([said[0], said[2]], [false, true]);
  assert.equal(said[1], "elsewhere crashed");
  const account = await page.evaluate(() => window.client.inspect());
  assert.equal(account.counters["elsewhere:crashed"], 1);
  assert.deepEqual(Object.keys(account.metrics), ["homepage"]);
  const window = { platform: "app", database: "of an app" }; // of Electron, or an extension
  const lasting = await page.evaluate(async ([m, more]) => {
    await window.open_(m, more);
    return [await client.record("crashed", true), await client.record("homepage", "x")];
  }, [collector.metrics, window]);
  assert.deepEqual(lasting, [true, true]);
});

test("a page of a listed origin reaches the collector across origins; of any other, it does not", { skip }, async (t) => {
  const served = await pages(ENTRY);
  const site = createServer((asked, answer) => {
    const [type, text] = served[asked.url] ?? ["text/plain", ""];
    answer.writeHead(200, { "Content-Type": type }).end(text);
  });
  await new Promise((resolve) => site.listen(0, resolve));
  t.after(() => void (site.closeAllConnections(), site.close()));
  const { port } = site.address();
  const allowed = { RAPPOR_ALLOWED_ORIGINS: JSON.stringify([`http://127.0.0.1:${port}`]) };
  const collector = await startCollector(t, {}, allowed);
  const context = await launch(collector);
  const open = (host) => tab(context, { url: `http://${host}:${port}/`, metrics: collector.metrics }, { collector: collector.direct });
  const [listed, other] = [await open("127.0.0.1"), await open("localhost")];
  for (const page of [listed, other]) await page.evaluate(() => window.record(5));
  assert.ok(await flush(listed));
  assert.equal(await other.evaluate(() => window.client.flush(1)), false);
  assert.match(await other.evaluate(() => window.client.lastError), /no_connection/);
  assert.deepEqual(collector.counted(), { homepage: 5 });
});

test("the example page asks, records and shows the account", { skip }, async (t) => {
  const read = (name) => readFileSync(new URL(`../../examples/web_page/${name}`, import.meta.url), "utf8");
  const stdin = { contents: read("page.js"), resolveDir: fileURLToPath(new URL("..", import.meta.url)) }; // where the package is
  const bundled = await build({ stdin, bundle: true, format: "esm", write: false, target: "es2022" });
  const served = { "/": ["text/html", read("index.html")], "/page.js": ["text/javascript", bundled.outputFiles[0].text], "/favicon.ico": ["image/x-icon", ""] };
  const collector = await startCollector(t, served);
  served["/metrics.json"] = ["application/json", JSON.stringify(collector.metrics)];
  const page = await (await launch(collector)).newPage();
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  await page.goto(collector.url);
  const shows = async (wanted) => {
    await page.waitForFunction((text) => document.getElementById("account").textContent.includes(text), wanted, { timeout: 15_000 });
    return JSON.parse(await page.textContent("#account"));
  };
  await shows('"no_consent"');
  await page.check("#consent");
  await shows('"active"');
  await page.click("#record");
  const account = await shows('"waiting": 1');
  assert.equal(account.metrics.homepage.values, 2);
  await page.uncheck("#consent");
  assert.equal((await shows('"waiting": 0')).metrics.homepage.values, 2);
  assert.deepEqual(complaints, []);
});

test("speed in Chromium", { skip }, async (t) => {
  const collector = await startCollector(t, await pages(ENTRY));
  const page = await tab(await launch(collector), collector);
  const { fresh, known } = await page.evaluate((m) => window.speed(m), collector.metrics);
  const durable = await page.evaluate(() => window.durable(300));
  t.diagnostic(`a new value ${fresh.toFixed(1)} us, a known one ${known.toFixed(2)} us, durable ${durable.toFixed(2)} ms`);
  assert.ok(known * 2 < fresh && durable < 100); // a ratio: machines are shared
});

test("a full disk never reaches the page, and a private window works until it is closed", { skip }, async (t) => {
  const collector = await startCollector(t, await pages(ENTRY));
  const context = await launch(collector);
  const page = await tab(context, collector);
  await page.evaluate(() => window.record(1));
  const failing = await page.evaluate(async () => {
    const put = IDBObjectStore.prototype.put;
    const ways = [
      () => { throw new DOMException("", "QuotaExceededError"); },
      function (...of) { put.apply(this, of); this.transaction.abort(); },
    ];
    const said = [];
    for (const way of ways) {
      IDBObjectStore.prototype.put = way;
      said.push(await window.client.record("homepage", "value 0"), window.client.status.condition);
      IDBObjectStore.prototype.put = put;
    }
    return [...said, await window.client.record("homepage", "value 0"), window.client.status.condition];
  });
  assert.deepEqual(failing, [false, "state_unavailable", false, "state_unavailable", true, "active"]);
  assert.ok(await flush(page));
  assert.deepEqual(collector.counted(), { homepage: 2 });

  const { chromium } = await import("playwright-core");
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
  t.after(() => browser.close());
  const before = collector.counted().homepage;
  const hidden = await tab(await browser.newContext(), collector); // off the record, as a private window
  await hidden.evaluate(() => window.record(5));
  assert.ok(await flush(hidden));
  assert.equal(collector.counted().homepage, before + 5);
});
