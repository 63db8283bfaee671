// An app's own tests, with vitest: what it would send. Run by ../vitest.test.mjs.

import { afterEach, beforeEach, expect, test } from "vitest";
import { matchers, ObservedApp } from "rappor-telemetry-client/testing";
import { METRICS } from "../witness.mjs";

expect.extend(matchers);
let app;
beforeEach(async () => (app = await ObservedApp.open({ metrics: METRICS })));
afterEach(() => app.close());

test("a start sends the page", async () => {
  await app.client.record("homepage", "https://example.org/");
  await app.client.record("homepage", "b");
  await expect(app).toHaveSent("homepage", "https://example.org/", "b");
});

test("another value, and a report that is missing, are named", async () => {
  await app.client.record("homepage", "a");
  await expect(expect(app).toHaveSent("homepage", "b")).rejects.toThrow('of homepage ["a"] was recorded, not ["b"]');
  app.collector.answer = () => ({ status: 503, retryAfter: "3600" });
  await expect(expect(app).toHaveSent("homepage", "a")).rejects.toThrow("0 reports of homepage left, not 1");
});

test("a name that is not declared rejects, and nothing leaves", async () => {
  await expect(app.client.record("hompage", "a")).rejects.toThrow();
  await expect(app).toHaveSentNothing();
});

test("what was not recorded is told with its reason", async () => {
  await app.client.setConsent(false);
  await app.client.record("homepage", "a");
  await expect(expect(app).toHaveSent("homepage", "a")).rejects.toThrow("not recorded: homepage");
});
