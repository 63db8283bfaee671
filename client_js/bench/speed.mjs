// Times of one value in Chromium: node bench/speed.mjs [DIST ...], after npm run build.
//
// Of several builds, in turns in one run, for a comparison on a shared machine. Each figure is the
// least and the median of batches: the least says what the code costs where nothing else runs. Beside
// a durable record stands one document read and written in IndexedDB, as durably: what any client pays.

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { chromium } from "playwright-core";

const HERE = fileURLToPath(new URL("..", import.meta.url));
const { good } = JSON.parse(readFileSync(new URL("../../tests/vectors/v1/compiled.json", import.meta.url), "utf8"));
const metrics = good.metrics.document;
metrics.budget = null;
metrics.metrics = metrics.metrics.filter(({ definition }) => definition.name === "homepage");
Object.assign(metrics.metrics[0].definition, { max_reports_per_period: 10_000 });

const page = (dist) => `
import { Client, IndexedDbStorage } from "${dist}/browser.js";
import { MetricEncoder } from "${dist}/core/device.js";
import { readMetrics } from "${dist}/core/reading.js";
import { systemRandomness } from "${dist}/ports/randomness.js";
let count = 0;
const metrics = ${JSON.stringify(metrics)};
const device = new MetricEncoder(readMetrics(metrics).metrics.get("homepage"), new Uint8Array(32).fill(7), systemRandomness());
const batch = (value, number) => {
  const start = performance.now();
  for (let i = 0; i < number; i++) { const bits = device.valueBits(value()); device.digest(bits); device.reportBits(bits); }
  return ((performance.now() - start) * 1000) / number;
};
const fresh = () => "https://example.org/page/" + count++;
window.values = () => [batch(fresh, 250), batch(() => "https://example.org/", 2500)];
window.durable = async (number) => {
  window.client ??= await Client.open({ metrics, storage: new IndexedDbStorage("bench", "app"), consent: true,
    collector: location.origin, doNotTrack: () => false, delivery: { meanDelay: 3600 } });
  const times = [];
  for (let i = 0; i < number; i++) {
    const start = performance.now();
    if (!(await client.record("homepage", "value"))) throw new Error(client.lastRefusal);
    times.push(performance.now() - start);
  }
  return times;
};
window.plain = async (number) => {
  window.database ??= await new Promise((done) => {
    const request = indexedDB.open("plain", 1);
    request.onupgradeneeded = () => request.result.createObjectStore("documents");
    request.onsuccess = () => done(request.result);
  });
  const times = [];
  for (let i = 0; i < number; i++) {
    const start = performance.now();
    await new Promise((done) => {
      const running = window.database.transaction("documents", "readwrite", { durability: "strict" });
      const store = running.objectStore("documents");
      running.oncomplete = done;
      store.get("one").onsuccess = () => (store.put({ number: i }, "one"), running.commit());
    });
    times.push(performance.now() - start);
  }
  return times;
};`;

const dists = process.argv.length > 2 ? process.argv.slice(2).map((name) => resolve(name)) : [resolve(HERE, "dist")];
const scripts = await Promise.all(dists.map(async (dist) => {
  const options = { bundle: true, format: "esm", write: false, minify: true, target: "es2022" };
  return (await build({ stdin: { contents: page(dist), resolveDir: HERE }, ...options })).outputFiles[0].text;
}));
const server = createServer((asked, answer) => {
  const at = Number(asked.url.slice(1).split(".")[0]);
  const html = `<!doctype html><title>bench</title><script type="module" src="/${at}.js"></script>`;
  const isScript = asked.url.endsWith(".js");
  answer.writeHead(200, { "Content-Type": isScript ? "text/javascript" : "text/html" }).end(isScript ? scripts[at] : html);
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const executablePath = process.env.RAPPOR_CHROMIUM ?? "/usr/bin/chromium";
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
const pages = [];
for (const at of dists.keys()) {
  const opened = await (await browser.newContext()).newPage();
  await opened.goto(`http://127.0.0.1:${server.address().port}/${at}`);
  await opened.waitForFunction("window.durable");
  pages.push({ opened, fresh: [], known: [], durable: [], plain: [] });
}
for (let round = 0; round < 40; round++) {
  for (const { opened, fresh, known, durable, plain } of pages) {
    const [a, b] = await opened.evaluate(() => window.values());
    if (round >= 5) fresh.push(a), known.push(b); // the first ones warm up
    durable.push(...(await opened.evaluate(() => window.durable(20))));
    plain.push(...(await opened.evaluate(() => window.plain(20))));
  }
}
const said = (times) => {
  const order = times.sort((a, b) => a - b);
  return `${order[0].toFixed(2)} / ${order[order.length >> 1].toFixed(2)}`;
};
for (const [at, { fresh, known, durable, plain }] of pages.entries()) {
  console.log(`${dists[at]}: least / median: new value ${said(fresh)} us, known ${said(known)} us, durable ${said(durable)} ms, plain ${said(plain)} ms`);
}
await browser.close();
server.close();
