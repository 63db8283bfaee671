// Nothing leaves once a withdrawal has resolved: in Chromium, whichever tab, frame or worker sends.

import assert from "node:assert/strict";
import { test } from "node:test";
import { skip, start } from "./parties.mjs";
import { METRICS } from "./witness.mjs";

const MOMENTS = Number(process.env.RAPPOR_TEST_MOMENTS ?? 100);

const DRIVER = `
const ask = (to, ...of) => new Promise((resolve) => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = ({ data }) => resolve(data);
  to(of, port2);
});
window.ready = (async () => {
  const worker = new Worker("/page.js", { type: "module" });
  const frame = document.createElement("iframe");
  frame.src = "/frame";
  document.body.append(frame);
  while (!frame.contentWindow.act) await new Promise((resolve) => setTimeout(resolve, 5));
  window.parties = {
    page: (...of) => window.act(...of),
    frame: (...of) => frame.contentWindow.act(...of),
    worker: (...of) => ask((message, port) => worker.postMessage(message, [port]), ...of),
  };
  return true;
})();
const wait = (most) => new Promise((resolve) => setTimeout(resolve, Math.random() * most));
window.moments = async (metrics, number) => {
  const names = Object.keys(parties);
  for (const name of names) await parties[name]("open", metrics);
  const seen = {};
  for (let moment = 0; moment < number; moment++) {
    const [sender, withdrawer] = [names[moment % 3], names[Math.floor(moment / 3) % 3]];
    for (const name of names) await parties[name]("consent", true);
    await parties[sender]("record", 4);
    const flushed = parties[sender]("flush", 5);
    await wait(60);
    await parties[withdrawer]("consent", false);
    const late = await (await fetch("/close")).text();
    const done = await flushed;
    await wait(4);
    await fetch("/open");
    seen[done ? "all" : "aborted"] = (seen[done ? "all" : "aborted"] ?? 0) + 1;
    if (late !== "0") throw new Error(sender + " sent after " + withdrawer + " withdrew");
  }
  return seen;
};
`;

const until = async (condition) => {
  for (let i = 0; i < 1000 && !condition(); i++) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.ok(condition());
};

/** Answers that wait until the test lets them go. */
const held = () => {
  let letGo;
  const wait = new Promise((resolve) => (letGo = resolve));
  return { letGo, delay: () => wait };
};

test("a withdrawal ends what another tab is sending, and that tab hears of it", { skip }, async (t) => {
  const { delay, letGo } = held();
  const { witness, tab } = await start(t, delay);
  const [one, two] = [await tab(), await tab()];
  await one.evaluate(() => act("record", 5));
  const flushed = one.evaluate(() => act("flush", 20));
  await until(() => witness.bodies === 1);
  await two.evaluate(() => act("consent", false));
  assert.equal(await flushed, false);
  assert.equal(await one.evaluate(() => act("condition")), "no_consent");
  assert.equal(await two.evaluate(() => act("waiting")), 0);
  letGo();
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.equal(witness.bodies, 1);
  assert.equal(await one.evaluate(() => client.record("homepage", "x")), false);
});

test("a withdrawal ends what a page that is hidden hands over", { skip }, async (t) => {
  const { delay } = held();
  const { witness, tab } = await start(t, delay);
  const page = await tab({ sendWhenHidden: true });
  await page.evaluate(() => act("record", 5));
  await page.evaluate(() => {
    Object.defineProperty(document, "visibilityState", { value: "hidden" });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await until(() => witness.bodies === 1);
  await page.evaluate(() => act("consent", false));
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.equal(witness.bodies, 1);
  assert.equal(await page.evaluate(() => act("waiting")), 0);
});

test("a page without Web Locks withdraws all the same", { skip }, async (t) => {
  const { delay } = held();
  const { witness, tab } = await start(t, delay);
  const page = await tab();
  await page.evaluate(() => Object.defineProperty(navigator, "locks", { value: undefined }));
  await page.evaluate(() => act("record", 5));
  const flushed = page.evaluate(() => act("flush", 20));
  await until(() => witness.bodies === 1);
  await page.evaluate(() => act("consent", false));
  assert.equal(await flushed, false);
  assert.deepEqual([witness.bodies, await page.evaluate(() => act("waiting"))], [1, 0]);
});

test(`no body leaves after ${MOMENTS} withdrawals by page, frame and worker`, { skip, timeout: 280_000 }, async (t) => {
  const { witness, tab } = await start(t, () => new Promise((resolve) => setTimeout(resolve, Math.random() * 4)), DRIVER);
  const page = await tab();
  await page.evaluate("ready");
  const seen = await page.evaluate(([m, number]) => moments(m, number), [METRICS, MOMENTS]);
  t.diagnostic(`${JSON.stringify(seen)}, ${witness.bodies} bodies in all; after a withdrawal: ${witness.late}`);
  assert.equal(witness.late, 0);
  assert.ok(seen.aborted > MOMENTS / 4, JSON.stringify(seen));
});
