// What may come before, beside and instead of the collector's answer (RFC 9110): none of it costs a report.
// A gateway that offers h2c, and loses the body: uvicorn #2722.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createServer } from "node:net";
import { test } from "node:test";
import { gunzipSync, gzipSync } from "node:zlib";
import { readResponse } from "../dist/core/answers.js";
import { decodeBatch } from "../dist/core/decode.js";
import { Client, MemoryStorage } from "../dist/node.js";
import { fetchTransport } from "../dist/ports/transport.js";
import { METRICS } from "./witness.mjs";

const digestOf = (body) => createHash("sha256").update(body).digest("hex");
const OURS = "urn:rappor-telemetry:problem:";
const http = (status, body = "", ...headers) => [`HTTP/1.1 ${status} x`, `Content-Length: ${Buffer.byteLength(body)}`, ...headers, "", body].join("\r\n");
const problem = (status, type, more = {}) => http(status, JSON.stringify({ type, status, title: "x", ...more }), "Content-Type: application/problem+json");
const HTML = "<!doctype html><title>Welcome to the airport</title>";

const INSTEAD = {
  "a captive portal": http(200, HTML, "Content-Type: text/html"),
  "an empty 200": http(200),
  "a truncated answer": (id) => http(200, `{"version":1,"batch_id":"${id}","duplicate":false,"results":[{"status":"acc`),
  "an answer cut off on the way": (id) => `HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{"version":1,"batch_id":"${id}","results":[{"status":"accepted"}]}`,
  "an answer to another batch": http(200, `{"version":1,"batch_id":"${"0".repeat(32)}","duplicate":false,"results":[{"status":"accepted"}]}`),
  "an answer with fewer results": (id) => http(200, `{"version":1,"batch_id":"${id}","duplicate":false,"results":[]}`),
  "no content": "HTTP/1.1 204 No Content\r\n\r\n",
  "reset content": http(205),
  "accepted, and no more": (id) => http(202, `{"batch_id":"${id}"}`, "Content-Type: application/json"),
  ...Object.fromEntries([301, 302, 303, 307, 308].map((status) => [`a redirection, ${status}`, http(status, HTML, "Location: /login")])),
  "not modified": "HTTP/1.1 304 Not Modified\r\n\r\n",
  ...Object.fromEntries([400, 401, 403, 404, 405, 407, 409, 411, 413, 414, 415, 417, 421, 422, 426, 431, 451, 500, 501, 502, 503, 504, 505, 507, 511].map(
    (status) => [`a page of a gateway, ${status}`, http(status, HTML, "Content-Type: text/html")])),
  "a problem of a gateway": problem(422, "about:blank"),
  "a problem of a gateway without a type": http(400, '{"status":400}', "Content-Type: application/problem+json"),
  "our problem in another type of content": http(422, JSON.stringify({ type: `${OURS}x`, status: 422 }), "Content-Type: application/json"),
  "our problem with another status": http(422, JSON.stringify({ type: `${OURS}x`, status: 409 }), "Content-Type: application/problem+json"),
  "our problem about a body that was lost": problem(400, `${OURS}x`, { body_sha256: digestOf("") }),
  "our problem about a body that was changed": problem(422, `${OURS}x`, { body_sha256: digestOf("other") }),
  "our problem about a body that was not read": problem(415, `${OURS}x`),
  "too large, of one report": problem(413, `${OURS}x`),
  "our problem about the path": problem(404, `${OURS}http`),
  "another protocol": "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nPRI * HTTP/2.0",
  "no HTTP at all": "SSH-2.0-OpenSSH_9.2\r\n",
  "nothing": "",
};
const BEFORE = {
  "early hints": "HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n",
  "continue": "HTTP/1.1 100 Continue\r\n\r\n",
  "processing": "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n",
};

const compressed = (whole) => {
  const body = gzipSync(whole.slice(whole.indexOf("\r\n\r\n") + 4));
  return Buffer.concat([Buffer.from(http(200, "", "Content-Encoding: gzip").replace("Length: 0", `Length: ${body.length}`)), body]);
};

/** A server that writes what it is told to each request: text, or a function of the id of the batch. */
const serve = async (t) => {
  const told = { answers: [], bodies: new Map(), url: "" };
  const server = createServer((socket) => {
    let got = Buffer.alloc(0);
    socket.on("error", () => undefined).on("data", (piece) => {
      got = Buffer.concat([got, piece]);
      const head = got.indexOf("\r\n\r\n");
      const size = Number(/content-length: (\d+)/i.exec(got.subarray(0, head))?.[1]);
      if (socket.writableEnded || head < 0 || !(got.length >= head + 4 + size)) return;
      const body = got.subarray(head + 4, head + 4 + size);
      if (!size) return socket.end(problem(400, `${OURS}not-a-batch`)); // as `fetch` of Node asks again after 421
      const { id, reports } = decodeBatch(new Uint8Array(gunzipSync(body)), "application/vnd.rappor.batch");
      told.bodies.set(id, (told.bodies.get(id) ?? new Set()).add(body.toString("hex")));
      const results = reports.map(() => ({ status: "accepted" }));
      const whole = http(200, JSON.stringify({ version: 1, batch_id: id, duplicate: false, results }), "Content-Type: application/json");
      const answer = told.answers.shift() ?? "";
      socket.end(typeof answer === "function" ? answer(id, whole) : answer);
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  return Object.assign(told, { url: `http://127.0.0.1:${server.address().port}` });
};

for (const way of ["node:http", "fetch"]) {
  test(`nothing that an intermediary says drops or doubles a batch, by ${way}`, async (t) => {
    const told = await serve(t);
    const transport = way === "fetch" ? fetchTransport(`${told.url}/v1/reports`, undefined) : undefined;
    const client = await Client.open({ metrics: METRICS, storage: new MemoryStorage(), collector: told.url, consent: true, doNotTrack: () => false,
      transport, delivery: { meanDelay: 3600, firstPause: 0.001, longestPause: 0.001, timeout: 2 } });
    let accepted = 0;
    const before = { ...BEFORE };
    for (const [word, answer] of Object.entries(INSTEAD)) {
      assert.ok(await client.record("homepage", "a"));
      told.answers = [answer];
      assert.equal(await client.flush(0), false, word);
      const { waiting, counters } = await client.inspect();
      assert.deepEqual([waiting, counters], [1, accepted ? { "accepted:homepage": accepted } : {}], word);
      told.answers = [(id, whole) => whole];
      assert.equal(await client.flush(5), true, word);
      accepted++;
    }
    if (way === "fetch") delete before.continue; // `fetch` of Node takes a 100 that it did not ask for as no answer
    for (const [word, lines] of Object.entries(before)) {
      assert.ok(await client.record("homepage", "a"));
      told.answers = [(id, whole) => lines + whole];
      assert.equal(await client.flush(0.5), true, word);
      accepted++;
    }
    assert.ok(await client.record("homepage", "a"));
    told.answers = [(id, whole) => compressed(whole)];
    assert.equal(await client.flush(0.5), true, "compressed, though nobody asked for it");
    accepted++;
    assert.equal((await client.inspect()).counters["accepted:homepage"], accepted);
    assert.deepEqual([told.bodies.size, ...[...told.bodies.values()].map((bodies) => bodies.size)], [accepted, ...Array(accepted).fill(1)]);
    await client.close();
  });
}

test("the collector's own word about this batch is final", () => {
  const [id, body] = ["ab".repeat(16), new Uint8Array([1, 2, 3])];
  const read = (status, body_sha256) => readResponse({ status, contentType: "application/problem+json; charset=utf-8", retryAfter: "",
    text: JSON.stringify({ type: `${OURS}not-a-batch`, status, body_sha256 }) }, id, 1, 0, body).kind;
  for (const status of [400, 409, 415, 422]) {
    assert.equal(read(status, digestOf(body)), "never");
    assert.equal(read(status, digestOf("")), "again");
    assert.equal(read(status), "again");
  }
  assert.equal(read(413), "large");
  for (const status of [401, 403, 404, 408, 429, 500, 503]) assert.equal(read(status, digestOf(body)), "again");
});
