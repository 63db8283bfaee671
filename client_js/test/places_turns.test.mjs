// Fresh turns and last known cells against the vectors in tests/vectors/v1/places_turns.json.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fromHex } from "../dist/core/bytes.js";
import { dayOf } from "../dist/core/days.js";
import { LEVELS, promiseOf, weakerThan } from "../dist/core/ledger.js";
import { paramsId } from "../dist/core/params_id.js";
import { readMetrics } from "../dist/core/reading.js";
import { Recorder } from "../dist/core/recorder.js";
import { digestOf } from "../dist/core/seal.js";
import { newDevice } from "../dist/core/state.js";
import { places } from "../dist/places.js";
import { dutyOf } from "../dist/places/duty.js";
import { momentOf, Visits } from "../dist/places/visits.js";
import { Documents, vectors } from "./vectors.mjs";

const { compiled, metrics: { expected }, duties, usual, limits } = vectors("places_turns");
const METRICS = readMetrics(compiled, places());
const partsOf = (name) => [...METRICS.metrics.values()].filter(({ line }) => line === name);
const secretOf = ({ secret }) => fromHex(secret);

test("params_ids digest turn and hold where they are new", () => {
  assert.deepEqual([...METRICS.metrics.keys()], Object.keys(expected));
  for (const [name, { params_id: id, lifetime_epsilon: nats }] of Object.entries(expected)) {
    const { definition, paramsId: found, lifetimeEpsilon } = METRICS.metrics.get(name);
    assert.deepEqual([found, paramsId(definition)], [id, id]);
    assert.ok(Math.abs(lifetimeEpsilon - nats) < 1e-9);
  }
});

test("the production build reads them, too", async () => {
  const { readMetrics: read } = await import("../dist/production/index.js");
  const { places: part } = await import("../dist/production/places.js");
  assert.deepEqual([...read({ ...compiled, digest: digestOf(compiled) }, part()).metrics.keys()], Object.keys(expected));
});

test("a turn or a look-back that does not go with the mode is refused", () => {
  const wrong = [["fresh", { turn: "new" }], ["fresh", { turn: "fixed" }], ["fresh", { hold: 5 }], ["fresh", { hold: 0 }], ["fresh", { hold: -1 }],
    ["fresh", { hold: 0.5 }], ["fresh", { hold: true }], ["fresh", { hold: 61, window: 100 }], ["fresh", { mode: "once", window: 0, turn: undefined }],
    ["fresh", { mode: "memo", window: 0 }]];
  for (const [name, fields] of wrong) {
    const document = structuredClone(compiled);
    for (const row of document.metrics.filter(({ definition }) => definition.name.startsWith(name))) {
      Object.assign(row.definition.location, fields);
      row.params_id = paramsId(row.definition);
    }
    assert.throws(() => readMetrics(document, places()), { name: "MetricsFileError", message: /^location: (turn|hold)/ }, JSON.stringify(fields));
  }
});

test("one turn in each block", () => {
  for (const row of duties) {
    const duty = dutyOf(secretOf(row), partsOf(row.metric));
    const { window } = partsOf(row.metric)[0].definition.location;
    for (const [block, turns] of Object.entries(row.turns_by_block)) {
      const periods = Array.from({ length: window }, (_, i) => Number(block) * window + i);
      assert.deepEqual(periods.flatMap((period) => duty.due(period).map(({ name }) => [period, name])), turns);
    }
  }
});

const localOf = (text) => {
  const [, sign, hours, minutes] = /([+-])(\d\d):(\d\d)$/.exec(text);
  return { ms: Date.parse(text), offset: (sign === "-" ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) };
};

for (const row of usual) {
  test(`${row.metric}: ${row.what}`, () => {
    const sent = [];
    let saved = null;
    for (const [at, ...point] of row.steps) {
      const visits = new Visits(partsOf(row.metric), secretOf(row), (...report) => sent.push(report), saved);
      if (point.length) visits.take([point], momentOf(localOf(at)));
      else visits.roll(momentOf(localOf(at)));
      saved = visits.toJson();
    }
    assert.deepEqual(sent, row.reports);
  });
}

test("the ledger counts by block", () => {
  const documents = new Documents();
  documents.all.set("device", { ...newDevice(), secret: limits.secret });
  const recorder = new Recorder(METRICS, LEVELS.standard, (n) => new Uint8Array(n), "app");
  for (const { metric, day, outcome } of limits.operations) {
    assert.equal(documents.run((store) => recorder.record(store, metric, "other", dayOf(day))), outcome, `${metric} ${day}`);
  }
});

test("fresh turns are weaker than a turn for life, not the other way", () => {
  const fresh = partsOf("fresh")[0];
  const fixed = promiseOf({ ...fresh, definition: { ...fresh.definition, location: { ...fresh.definition.location, turn: undefined } } });
  assert.equal(weakerThan(promiseOf(fresh), fixed), "reports_in_window");
  assert.equal(weakerThan(fixed, promiseOf(fresh)), "");
});

test("a cell that no answer to come is made from is not kept", () => {
  const row = usual.find(({ metric }) => metric === "fresh");
  let [saved, held] = [null, 0];
  for (const [at, ...point] of row.steps) {
    const duty = dutyOf(secretOf(row), partsOf(row.metric));
    const visits = new Visits(partsOf(row.metric), secretOf(row), () => undefined, saved);
    if (point.length) visits.take([point], momentOf(localOf(at)));
    else visits.roll(momentOf(localOf(at)));
    saved = visits.toJson();
    const { known, dwell, last, period } = JSON.parse(saved);
    for (const [slot, seen] of known) {
      held++;
      assert.ok(duty.answersFrom(seen).some((answer) => answer.slot === slot && answer.turn >= period));
    }
    const wanted = duty.answersFrom(period).length;
    assert.ok(wanted || (!dwell.length && (last === null || last[1] === "other")));
  }
  assert.ok(held);
});

const START = 4151 * 5; // the first day of a block of `fresh`

test("the last day of a block and the first of the next may both have a report, two days of one block may not", () => {
  const documents = new Documents();
  documents.all.set("device", { ...newDevice(), secret: "07".repeat(32) });
  const recorder = new Recorder(METRICS, LEVELS.standard, (n) => new Uint8Array(n), "app");
  const record = (day) => documents.run((store) => recorder.record(store, "fresh/early/0", "other", day));
  assert.deepEqual([START + 4, START + 5, START, START + 9, START + 10].map(record), ["queued", "queued", "full", "full", "queued"]);
});

test("a clock that goes back before a last known cell forgets it", () => {
  const noon = (day, hour = 12) => momentOf({ ms: (day * 24 + hour) * 3_600_000, offset: 0 });
  const lives = Array.from({ length: 40 }, (_, i) => Uint8Array.from({ length: 32 }, () => i));
  const cases = lives.flatMap((secret) => {
    const duty = dutyOf(secret, partsOf("fresh"));
    const turn = Array.from({ length: 5 }, (_, i) => START + 5 + i).find((day) => duty.due(day).length);
    return turn >= START + 7 ? [[secret, turn, duty.due(turn)[0].slot]] : [];
  });
  assert.ok(cases.length > 5);
  for (const [secret, turn, slot] of cases) {
    const answer = (goesBack) => {
      const sent = [];
      const visits = new Visits(partsOf("fresh"), secret, (...report) => sent.push(report), null);
      visits.take([[0.5, 0.5]], noon(turn - 2, slot === "early" ? 9 : 15));
      visits.roll(noon(turn - 1));
      if (goesBack) visits.roll(noon(turn - 3));
      visits.roll(noon(turn + 1));
      return sent.find(([, , day]) => day === turn)[1];
    };
    assert.notEqual(answer(false), "other");
    assert.equal(answer(true), "other");
  }
});

test("a look between fixes changes no time spent", () => {
  const [plain, looked] = [0, 1].map(() => new Visits(partsOf("memoised"), new Uint8Array(32), () => undefined, null));
  const at = (minutes) => momentOf({ ms: (START * 24 + 9) * 3_600_000 + minutes * 60_000, offset: 0 });
  for (let minutes = 0; minutes < 60; minutes += 10) {
    for (const visits of [plain, looked]) visits.take([minutes < 30 ? [0.5, 0.5] : [3.5, 0.5]], at(minutes));
    looked.look(at(50));
  }
  assert.equal(looked.toJson(), plain.toJson());
});
