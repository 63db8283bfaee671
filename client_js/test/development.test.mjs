// What development says of mistakes: options that there are not, values that are not recorded.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openClient as openBrowser } from "../dist/browser.js";
import { Client, MemoryStorage, openClient } from "../dist/node.js";
import * as production from "../dist/production/index.js";
import { numbers } from "../dist/numbers.js";
import { pairs } from "../dist/pairs.js";
import { digestOf } from "../dist/core/seal.js";
import { vectors } from "./vectors.mjs";

const DOCUMENT = structuredClone(vectors("compiled").good.metrics.document);
DOCUMENT.budget = null;
for (const { definition } of DOCUMENT.metrics) definition.max_reports_per_period = 2;
DOCUMENT.metrics = DOCUMENT.metrics.filter(({ definition }) => definition.kind !== "location");
DOCUMENT.digest = digestOf(DOCUMENT);
const OPTIONS = { metrics: DOCUMENT, collector: "http://127.0.0.1:1", consent: true, doNotTrack: () => false, delivery: { meanDelay: 3600 } };

/** What is warned of in a test, by an app that says in which mode it is. */
const listen = (t, mode) => {
  const [said, { warn }, before] = [[], console, process.env.NODE_ENV];
  console.warn = (text) => said.push(text);
  if (mode) process.env.NODE_ENV = mode;
  t.after(() => {
    console.warn = warn;
    if (before === undefined) delete process.env.NODE_ENV;
    else process.env.NODE_ENV = before;
  });
  return said;
};

test("an option that there is not is named, with the one that was meant", async (t) => {
  const said = listen(t);
  const storage = new MemoryStorage();
  for (const [open, wrong, meant] of [
    [Client.open, { consents: true }, "consents; did you mean consent?"], [openClient, { statedir: "x", stateDir: "" }, "statedir; did you mean stateDir?"],
    [openBrowser, { sendwhenhidden: true }, "sendwhenhidden; did you mean sendWhenHidden?"], [openBrowser, { stateDir: "x" }, "stateDir; there are database, platform,"],
    [Client.open, { delivery: { meandelay: 3 } }, "delivery.meandelay; did you mean meanDelay?"], [Client.open, { colector: 3 }, "colector; did you mean collector?"],
  ]) {
    for (let i = 0; i < 2; i++) await open.call(Client, { storage, ...OPTIONS, ...wrong }).then((client) => client.close(), () => undefined);
    assert.equal(said.filter((text) => text.startsWith("rappor-telemetry: ") && text.includes(meant)).length, 1, `${meant}: ${said}`);
  }
  const { length } = said;
  await (await production.Client.open({ storage: new production.MemoryStorage(), ...OPTIONS, consents: true })).close();
  assert.equal(said.length, length);
});

test("one warning names a value that is not recorded, why, and what is taken; in Node only where development is said", async (t) => {
  const said = listen(t, "development");
  const open = () => Client.open({ storage: new MemoryStorage(), ...OPTIONS });
  const client = await open();
  const mistakes = [
    ["theme", "pink", /^rappor-telemetry: not recorded: theme, "pink": .*not one of its categories; it takes "light", "dark"/],
    ["crashed", "yes", /crashed, "yes": .*; it takes true or false$/],
    ["homepage", 3, /homepage, 3: .*; it takes a string$/],
    ["hompage", "x", /hompage, "x": .*; did you mean homepage\?$/],
    ["homepage", () => 3, /homepage, .*; it takes a string$/],
  ];
  for (const [name, value, text] of mistakes) {
    said.length = 0;
    for (let i = 0; i < 3; i++) assert.equal(await client.record(name, value), false);
    assert.equal(said.length, 1, `${name}: ${said}`);
    assert.match(said[0], text);
    assert.ok(!client.lastRefusal.includes("pink"));
  }
  said.length = 0;
  for (let i = 0; i < 4; i++) await client.record("homepage", "x");
  assert.match(said.join(), /^rappor-telemetry: not recorded: homepage, "x": homepage: has all the reports/);
  await client.setConsent(false);
  assert.equal(await client.record("homepage", "y"), false);
  assert.match(said.at(-1), /the person does not consent/);
  await client.close();
  said.length = 0;
  delete process.env.NODE_ENV; // where most apps of Node run: a value is the person's
  const quiet = await open();
  assert.equal(await quiet.record("theme", "red"), false);
  process.env.NODE_ENV = "production";
  assert.equal(await quiet.record("theme", "green"), false);
  await quiet.close();
  assert.deepEqual(said, []);
});

test("of a pair the warning says which lists it takes", async (t) => {
  const said = listen(t, "development");
  const { compiled: document } = vectors("pairs");
  const { name } = document.metrics.find(({ definition }) => definition.kind === "pair").definition;
  const client = await Client.open({ ...OPTIONS, metrics: document, storage: new MemoryStorage(), kinds: [pairs(), numbers()] });
  assert.equal(await client.record(name, ["beige", true]), false);
  assert.match(said.join(), /\["beige",true\]: .*; it takes a list of two: "a \| true", "a \| false", /);
  await client.close();
});

test("an app in development whose record rejects is warned, too; the production build says nothing", async (t) => {
  const said = listen(t, "development");
  const strict = await Client.open({ storage: new MemoryStorage(), ...OPTIONS, development: true });
  await assert.rejects(strict.record("theme", "violet"), { code: "value_category" });
  assert.match(said.join(), /theme, "violet"/);
  await strict.close();
  said.length = 0;
  const shipped = await production.Client.open({ storage: new production.MemoryStorage(), ...OPTIONS });
  assert.equal(await shipped.record("theme", "brown"), false);
  await shipped.close();
  assert.deepEqual(said, []);
});
