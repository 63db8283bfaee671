// A journal that is missing is refused until a reset; an older copy of it keeps its secret.

import assert from "node:assert/strict";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { openClient } from "../dist/node.js";
import { vectors } from "./vectors.mjs";

const { document } = vectors("platforms");
const [JOURNAL, WITNESS] = ["state.journal", "state.witness"];

const begin = (t) => {
  const root = mkdtempSync(join(tmpdir(), "rappor-js-"));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  const stateDir = join(root, "state");
  return {
    at: (name) => join(stateDir, name),
    copy: join(root, "copy"),
    open: () =>
      openClient({ metrics: document, stateDir, consent: true, collector: "http://127.0.0.1:1", doNotTrack: () => false,
        clock: () => 20_000 * 86_400, delivery: { meanDelay: 3600 }, transport: async () => { throw new TypeError("offline"); } }),
  };
};

const secretIn = (text) => /[0-9a-f]{64}/.exec(text)[0];

test("a journal that is missing is refused until it is back, or a reset draws a new secret", async (t) => {
  const { at, copy, open } = begin(t);
  await (await open()).close();
  const secret = secretIn(readFileSync(at(JOURNAL), "utf8"));
  cpSync(at(JOURNAL), copy);
  rmSync(at(JOURNAL));
  const lost = await open();
  assert.equal(lost.status.condition, "state_missing");
  assert.equal(await lost.record("disk", "a"), false);
  assert.match(lost.lastRefusal, /missing, though it was there before/);
  assert.ok(!existsSync(at("state.lock")));
  cpSync(copy, at(JOURNAL));
  assert.ok(await lost.setConsent(true));
  assert.equal(secretIn(readFileSync(at(JOURNAL), "utf8")), secret);
  await lost.close();
  rmSync(at(JOURNAL));
  const again = await open();
  await again.reset();
  assert.equal(again.status.condition, "active");
  assert.notEqual(secretIn(readFileSync(at(JOURNAL), "utf8")), secret);
  await again.close();
});

test("an older copy of the journal is accepted with its secret, and the witness is made again", async (t) => {
  const { at, copy, open } = begin(t);
  const one = await open();
  cpSync(at(JOURNAL), copy);
  assert.ok(await one.record("disk", "a")); // what the copy has forgotten
  await one.close();
  const secret = secretIn(readFileSync(at(JOURNAL), "utf8"));
  cpSync(copy, at(JOURNAL));
  rmSync(at(WITNESS));
  const two = await open();
  assert.equal(two.status.condition, "active");
  assert.equal(secretIn(readFileSync(at(JOURNAL), "utf8")), secret);
  assert.deepEqual(readFileSync(at(WITNESS)), Buffer.of());
  await two.close();
});

test("consent withdrawn and given again is no missing state", async (t) => {
  const { at, open } = begin(t);
  const one = await open();
  await one.record("disk", "a");
  await one.setConsent(false);
  await one.close();
  assert.ok(existsSync(at(WITNESS)));
  const two = await open();
  assert.equal(two.status.condition, "active");
  await two.close();
});
