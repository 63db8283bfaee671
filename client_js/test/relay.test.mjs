// The part for a relay: every byte of the RFCs' vectors, and the real collector behind one.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { fromHex, toHex, utf8 } from "../dist/core/bytes.js";
import { encapsulate, keyOf, openResponse, relay } from "../dist/relay.js";
import { openClient } from "../dist/node.js";
import { decodeResponse, encodeRequest } from "../dist/relay/binary_http.js";
import { exported, extract, expand, seal, setUpSender } from "../dist/relay/hpke.js";
import { noCollector, PYTHON, startCollector } from "./collector.mjs";
import { vectors } from "./vectors.mjs";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const { rfc9458, rfc9180, rfc9292 } = vectors("ohttp");
const X25519 = { name: "X25519" };

/** A key pair from its private key. */
const pairOf = async (secret) => {
  const pkcs8 = fromHex(`302e020100300506032b656e04220420${secret}`);
  const privateKey = await crypto.subtle.importKey("pkcs8", pkcs8, X25519, true, ["deriveBits"]);
  const { x } = await crypto.subtle.exportKey("jwk", privateKey);
  return { privateKey, publicKey: await crypto.subtle.importKey("raw", Buffer.from(x, "base64url"), X25519, true, []) };
};
const framed = (config) => Uint8Array.from([0, config.length, ...config]);

test("the key, the request and the response of RFC 9458 have every byte", async () => {
  const config = keyOf(framed(fromHex(rfc9458.key_config)));
  assert.equal(config.keyId, 1);
  const { sealed, ...exchange } = await encapsulate(config, fromHex(rfc9458.request), await pairOf(rfc9458.ephemeral_private_key));
  assert.equal(toHex(sealed), rfc9458.encapsulated_request);
  assert.equal(toHex(await exported(exchange.context, utf8("message/bhttp response"), 16)), rfc9458.secret);
  assert.equal(toHex(await openResponse(exchange, fromHex(rfc9458.encapsulated_response))), rfc9458.response);
  const prk = await extract(Uint8Array.from([...exchange.sent, ...fromHex(rfc9458.response_nonce)]), fromHex(rfc9458.secret));
  assert.equal(toHex(prk), rfc9458.prk);
  assert.equal(toHex(await expand(prk, utf8("key"), 16)), rfc9458.response_key);
  assert.equal(toHex(await expand(prk, utf8("nonce"), 12)), rfc9458.response_aead_nonce);
});

test("the context of RFC 9180 has every byte", async () => {
  const { sent, context } = await setUpSender(fromHex(rfc9180.public_key), fromHex(rfc9180.info), await pairOf(rfc9180.ephemeral_private_key));
  assert.equal(toHex(sent), rfc9180.ephemeral_public_key);
  assert.deepEqual([context.key, context.nonce, context.exporterSecret].map(toHex), [rfc9180.key, rfc9180.base_nonce, rfc9180.exporter_secret]);
  assert.equal(toHex(await seal(context.key, context.nonce, fromHex(rfc9180.plaintext), fromHex(rfc9180.associated))), rfc9180.ciphertext);
  for (const [label, secret] of Object.entries(rfc9180.exports)) assert.equal(toHex(await exported(context, fromHex(label), 32)), secret);
});

test("requests of RFC 9292 are written, responses read", () => {
  const fields = { "user-agent": "curl/7.16.3 libcurl/7.16.3 OpenSSL/0.9.7l zlib/1.2.3", host: "www.example.com", "accept-language": "en, mi" };
  const written = encodeRequest(["GET", "https", "", "/hello.txt"], fields, new Uint8Array(0));
  assert.equal(written.length, 1024);
  const wanted = fromHex(rfc9292.request);
  assert.equal(toHex(written.slice(0, wanted.length)), rfc9292.request);
  assert.ok(written.slice(wanted.length).every((byte) => byte === 0));
  assert.equal(decodeResponse(fromHex(rfc9458.response)).status, 200);
  const told = decodeResponse(fromHex("01406600409d" + "0e" + "0c636f6e74656e742d74797065" + "0161" + "00")); // 102, then 157: not final
  assert.notEqual(told.status, 102);
  for (const bad of ["", "00", "0240c8", "0140c805", "0140c8030161"]) assert.throws(() => decodeResponse(fromHex(bad)));
});

test("what is no key or no address is refused", () => {
  const keys = framed(fromHex(rfc9458.key_config));
  for (const bad of [new Uint8Array(0), Uint8Array.of(0, 9, 1), framed(fromHex("0100100000"))]) assert.throws(() => keyOf(bad), { code: "relay_keys" });
  const choices = { url: "https://relay.example.net/ohttp", keys, collector: "https://c.example" };
  assert.equal(typeof relay(choices), "function");
  assert.equal(typeof relay({ ...choices, keys: Buffer.from(keys).toString("base64") }), "function");
  assert.throws(() => relay({ ...choices, url: "relay" }), { code: "collector_address" });
  assert.throws(() => relay({ ...choices, url: "http://relay.example.net" }), { code: "collector_address" });
  assert.throws(() => relay({ ...choices, url: "http://127.0.0.1.example.net/" }), { code: "collector_address" });
  assert.throws(() => relay({ ...choices, collector: "https://user@c.example" }), { code: "collector_address" });
  assert.throws(() => relay({ ...choices, key: "a b" }), { code: "key_characters" });
});

const listening = async (t, act) => {
  const seen = [];
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    seen.push({ path: request.url, headers: request.headers, body: Buffer.concat(chunks) });
    act(response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  return { url: `http://127.0.0.1:${server.address().port}/ohttp`, seen };
};
const REQUEST = { body: utf8("a batch"), contentType: "application/vnd.rappor.batch", encoding: "gzip", timeout: 5 };

test("a relay's own answer is never the collector's word, and tries share nothing", async (t) => {
  const answers = [[422, "application/problem+json", '{"type":"urn:rappor-telemetry:problem:x","status":422}'], [413, "application/problem+json", "{}"], [200, "message/ohttp-res", "x".repeat(99)], [200, "text/html", "hi"]];
  const { url, seen } = await listening(t, (response) => {
    const [status, kind, body] = answers.shift();
    response.writeHead(status, { "Content-Type": kind }).end(body);
  });
  const send = relay({ url, keys: framed(fromHex(rfc9458.key_config)), collector: "https://c.example", key: "rk_secret" });
  const { signal } = new AbortController();
  for (const status of [422, 413]) assert.deepEqual(await send({ ...REQUEST, signal }), { status, contentType: "", retryAfter: "", text: "" });
  await assert.rejects(send({ ...REQUEST, signal }));
  await assert.rejects(send({ ...REQUEST, signal }), /message\/ohttp-res/);
  assert.equal(new Set(seen.map(({ body }) => toHex(body.subarray(7, 39)))).size, 4);
  for (const { path, headers, body } of seen) {
    assert.equal(path, "/ohttp");
    assert.equal(body.length, 1024 + 55);
    assert.ok(!body.includes("rk_secret"));
    assert.equal(headers["content-type"], "message/ohttp-req");
    for (const name of ["cookie", "authorization", "referer", "content-encoding"]) assert.equal(headers[name], undefined);
  }
  const ended = new AbortController();
  ended.abort();
  await assert.rejects(send({ ...REQUEST, signal: ended.signal }));
  assert.equal(seen.length, 4);
});

test("a client behind a relay is counted once by the real collector", { skip: noCollector }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "rappor-relay-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const [file, keys] = [join(folder, "keys.json"), join(folder, "relay.keys")];
  execFileSync(PYTHON, ["-m", "rappor_cli", "ohttp-keys", "create", "--keys", file, "-o", keys], { cwd: ROOT });
  const collector = await startCollector(t, {}, { RAPPOR_OHTTP_KEYS: file });
  collector.faults.push("after", 503, "garbage", 400); // what the relay does first
  const client = await openClient({
    metrics: collector.metrics, collector: "https://collector.invalid", consent: true, stateDir: join(folder, "state"),
    delivery: { meanDelay: 0, firstPause: 0.01, longestPause: 0.05, batchReports: 4 },
    transport: relay({ url: `${collector.url}/v1/ohttp`, keys: readFileSync(keys), collector: "https://collector.invalid" }),
  });
  for (let i = 0; i < 10; i++) assert.ok(await client.record("homepage", "x"), client.lastRefusal);
  assert.ok(await client.flush(30), client.status.sentence);
  assert.deepEqual(collector.counted(), { homepage: 10 });
  await client.close?.();
});
