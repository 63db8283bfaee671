// Debian's Chromium with pages of a test's own, served from the collector's address.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { noCollector } from "./collector.mjs";

export const CHROMIUM = process.env.RAPPOR_CHROMIUM ?? "/usr/bin/chromium";

/** Why there is no browser or collector to test with; false where there are both. */
export const skip = noCollector || (existsSync(CHROMIUM) ? false : `no ${CHROMIUM}: set RAPPOR_CHROMIUM`);

/** A page with a script, which says `window.open_`. */
export const pages = async (entry) => {
  const resolveDir = fileURLToPath(new URL("..", import.meta.url));
  const stdin = { contents: entry, resolveDir };
  const { outputFiles } = await build({ stdin, bundle: true, format: "esm", write: false, target: "es2022", logLevel: "error" });
  const policy = `<meta http-equiv="Content-Security-Policy" content="script-src 'self'">`; // no eval
  return {
    "/": ["text/html", `<!doctype html>${policy}<title>t</title><script type="module" src="/page.js"></script>`],
    "/page.js": ["text/javascript", outputFiles[0].text],
    "/favicon.ico": ["image/x-icon", ""],
  };
};

/** A browser whose profile is in the collector's folder. more: options of the context. */
export const launch = async ({ folder, endings }, more = {}) => {
  const { chromium } = await import("playwright-core");
  const context = await chromium.launchPersistentContext(join(folder, "profile"), {
    executablePath: CHROMIUM,
    ...more,
    args: ["--no-sandbox", "--disable-gpu", `--rappor-test=${folder}`],
  });
  endings.push(() => context.close().catch(() => undefined));
  return context;
};

/** A tab with the client open. */
export const tab = async (context, { url, metrics }, more = {}) => {
  const page = await context.newPage();
  await page.goto(url);
  await page.waitForFunction("window.open_");
  assert.equal(await page.evaluate(([m, more]) => window.open_(m, more), [metrics, more]), "active");
  return page;
};

/** Ends this test's own browser at once: the process whose arguments name the test's folder. */
export const kill = (folder) => {
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    let words = "";
    try {
      words = readFileSync(`/proc/${pid}/cmdline`, "utf8");
    } catch {
      continue; // it has ended meanwhile
    }
    if (words.includes(`--rappor-test=${folder}`) && !words.includes("--type=")) process.kill(Number(pid), "SIGKILL");
  }
};
