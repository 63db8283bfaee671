// Metrics that the collector stops by its answer: a device records less, and says so.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, MemoryStorage, render } from "../dist/node.js";
import { MemoryCollector } from "../dist/testing.js";
import { METRICS } from "./witness.mjs";

const DAY = 86_400;

const life = async () => {
  const collector = new MemoryCollector();
  const reasons = {};
  collector.resultOf = (report) => {
    const reason = reasons[report.metric];
    if (!reason) collector.reports.push(report);
    return reason ? { status: "refused", reason } : { status: "accepted" };
  };
  const storage = new MemoryStorage();
  const clock = { now: 1.8e9 };
  const open = (metrics = METRICS) => Client.open({ metrics, storage, collector: "http://127.0.0.1:1", transport: collector.transport, consent: true,
    doNotTrack: () => false, clock: () => clock.now, delivery: { meanDelay: 3600, firstPause: 0.001 } });
  const client = await open();
  const stop = async (reason) => {
    reasons.homepage = reason;
    assert.ok(await client.record("homepage", "a"));
    assert.equal(await client.flush(5), false);
    assert.equal((await client.inspect()).counters[`refused:homepage:${reason}`], 1);
  };
  return { client, collector, reasons, clock, open, stop };
};

test("a retired metric is recorded no more, until its params_id changes", async () => {
  const { client, clock, open, stop } = await life();
  await stop("metric_retired");
  clock.now += 30 * DAY;
  assert.equal(await client.record("homepage", "a"), false);
  assert.match(client.lastRefusal, /collects it no more/);
  const account = await client.inspect();
  assert.deepEqual([account.stopped, account.counters["stopped:homepage"]], [{ homepage: "metric_retired" }, 1]);
  assert.match(render(account), /homepage: the collector collects it no more/);
  await client.close();
  const again = await open();
  assert.equal(await again.record("homepage", "b"), false);
  await again.close();
});

test("a paused metric sends one report a day", async () => {
  const { client, collector, reasons, clock, stop } = await life();
  await stop("metric_paused");
  const sent = collector.requests.length;
  assert.equal(await client.record("homepage", "b"), false);
  clock.now += DAY;
  assert.ok(await client.record("homepage", "b"));
  assert.equal(await client.record("homepage", "b"), false);
  assert.equal(await client.flush(5), false);
  assert.equal(collector.requests.length, sent + 1);
  clock.now += DAY;
  delete reasons.homepage;
  assert.ok(await client.record("homepage", "b"));
  assert.ok(await client.flush(5));
  assert.deepEqual((await client.inspect()).stopped, {});
  assert.ok(await client.record("homepage", "a"));
  assert.ok(await client.record("homepage", "b"));
  await client.close();
});

test("a withdrawal forgets it, and no other reason stops a metric", async () => {
  const { client, reasons, stop } = await life();
  await stop("metric_paused");
  assert.ok(await client.setConsent(false));
  assert.ok(await client.setConsent(true));
  assert.deepEqual((await client.inspect()).stopped, {});
  reasons.homepage = "day_closed";
  assert.ok(await client.record("homepage", "a"));
  await client.flush(5);
  assert.ok(await client.record("homepage", "a"));
  await client.close();
});
