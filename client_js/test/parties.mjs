// Pages of a witness in Chromium: the client in a page, a frame or a worker, without a collector.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { CHROMIUM } from "./browser.mjs";
import { METRICS, startWitness } from "./witness.mjs";

/** Why there is no browser to test with; false where there is one. */
export const skip = existsSync(CHROMIUM) ? false : `no ${CHROMIUM}: set RAPPOR_CHROMIUM`;

// In a page, a frame and a worker alike: `client`, and acts of it by name, also from the other side.
const ENTRY = `
import { openClient } from "./dist/production/browser.js";
const acts = {
  open: async (metrics, more = {}) => {
    self.client = await openClient({ metrics, collector: location.origin, consent: true, doNotTrack: () => false,
      ...more, delivery: { meanDelay: 3600, batchReports: 1, firstPause: 0.01, longestPause: 0.02, ...more.delivery } });
    return client.status.condition;
  },
  record: async (reports) => {
    for (let i = 0; i < reports; i++) if (!(await client.record("homepage", "x"))) throw new Error(client.lastRefusal);
  },
  consent: (consent) => client.setConsent(consent),
  flush: (seconds) => client.flush(seconds),
  condition: () => client.status.condition,
  waiting: async () => (await client.inspect()).waiting,
};
self.act = (name, ...of) => acts[name](...of);
self.onmessage = async ({ data: [name, ...of], ports: [port] }) => port?.postMessage(await self.act(name, ...of));
`;
/** Pages of a witness, and a browser. driver: a script of `/`. delay: until an answer. */
export const start = async (t, delay, driver = "") => {
  const bundle = async (contents) => {
    const stdin = { contents, resolveDir: fileURLToPath(new URL("..", import.meta.url)) };
    return (await build({ stdin, bundle: true, format: "esm", write: false, target: "es2022", logLevel: "error" })).outputFiles[0].text;
  };
  const page = (...scripts) => ["text/html", `<!doctype html><title>t</title><body>${scripts.map((src) => `<script type="module" src="${src}"></script>`).join("")}`];
  const pages = {
    "/": page("/page.js", "/driver.js"),
    "/frame": page("/page.js"),
    "/page.js": ["text/javascript", await bundle(ENTRY)],
    "/driver.js": ["text/javascript", driver],
    "/favicon.ico": ["image/x-icon", ""],
  };
  const witness = await startWitness(t, { pages, delay });
  const { chromium } = await import("playwright-core");
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
  t.after(() => browser.close());
  const context = await browser.newContext();
  const tab = async (more) => {
    const opened = await context.newPage();
    await opened.goto(witness.url);
    await opened.waitForFunction("window.act");
    assert.equal(await opened.evaluate(([m, o]) => act("open", m, o), [METRICS, more]), "active");
    return opened;
  };
  return { witness, tab };
};
