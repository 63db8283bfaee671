/**
 * The part for apps with a relay (Oblivious HTTP, RFC 9458): pass `relay(...)` to `open`, as `transport`.
 * The relay sees the device's address and no report, the collector sees reports and no address.
 */

import { concat, utf8 } from "./core/bytes.js";
import { ParameterError } from "./core/errors.js";
import type { Transport } from "./ports/transport.js";
import { decodeResponse, encodeRequest } from "./relay/binary_http.js";
import { expand, exported, extract, KEY_BYTES, newPair, NONCE_BYTES, open, PUBLIC_KEY_BYTES, seal, setUpSender, SUITE, type Context } from "./relay/hpke.js";

const REQUEST_TYPE = "message/ohttp-req";
const RESPONSE_TYPE = "message/ohttp-res";
// over plain http anybody on the way could answer in the relay's place; to loopback nobody is on it
const RELAY = /^(https:\/\/[^\s/?#@]+|http:\/\/(localhost|\[::1\]|127\.\d+\.\d+\.\d+)(:\d+)?)(\/[^\s?#]*)?$/i;
const COLLECTOR = /^(https?):\/\/([^\s/?#@]+)(\/[^\s?#]*)?$/i;
const MAX_ANSWER = 4 << 20;
const NONCE = Math.max(KEY_BYTES, NONCE_BYTES);

/** A key of the collector. Nothing in it is private. */
export interface KeyConfig {
  readonly keyId: number;
  readonly publicKey: Uint8Array;
}

/** What `relay` takes. */
export interface RelayOptions {
  /** Where the relay takes requests, such as `https://relay.example.net/ohttp`. */
  readonly url: string;
  /** The public part of the collector's keys, by `rappor ohttp-keys create -o FILE`; or its base64. */
  readonly keys: Uint8Array | string;
  /** The collector's address, which it alone reads. */
  readonly collector: string;
  readonly key?: string;
  /** In place of a new key pair for each message: for tests. */
  readonly newPair?: () => Promise<CryptoKeyPair>;
}

/** The first key of `application/ohttp-keys` (RFC 9458, section 3) that can be used here. Throws ParameterError. */
export const keyOf = (data: Uint8Array): KeyConfig => {
  const two = (at: number): number => data[at]! * 256 + data[at + 1]!;
  for (let at = 0, end; at < data.length; at = end) {
    end = at + 2 + two(at);
    if (!(end <= data.length)) break;
    const suites = at + 5 + PUBLIC_KEY_BYTES;
    if (two(at + 3) !== 0x0020 || suites + 2 + two(suites) !== end) continue;
    for (let suite = suites + 2; suite < end; suite += 4)
      if (two(suite) === 1 && two(suite + 2) === 1) return { keyId: data[at + 2]!, publicKey: data.slice(at + 5, suites) };
  }
  throw new ParameterError("relay_keys");
};

/** A request on its way. sent: the device's public value. */
export interface Exchange {
  readonly sent: Uint8Array;
  readonly context: Context;
}

/** Encrypt a binary request for the holder of a key (RFC 9458, section 4.3). */
export const encapsulate = async ({ keyId, publicKey }: KeyConfig, request: Uint8Array, pair: CryptoKeyPair): Promise<Exchange & { readonly sealed: Uint8Array }> => {
  const header = concat([Uint8Array.of(keyId), SUITE]);
  const { sent, context } = await setUpSender(publicKey, concat([utf8("message/bhttp request\0"), header]), pair);
  return { sealed: concat([header, sent, await seal(context.key, context.nonce, request)]), sent, context };
};

/** Decrypt the answer to a request (RFC 9458, section 4.4). Rejects for an invalid one. */
export const openResponse = async ({ sent, context }: Exchange, sealed: Uint8Array): Promise<Uint8Array> => {
  const nonce = sealed.slice(0, NONCE);
  const prk = await extract(concat([sent, nonce]), await exported(context, utf8("message/bhttp response"), NONCE));
  const [key, iv] = await Promise.all([expand(prk, utf8("key"), KEY_BYTES), expand(prk, utf8("nonce"), NONCE_BYTES)]);
  return open(key!, iv!, sealed.slice(NONCE));
};

/** An answer of the relay; its content is sealed bytes, of which none are read past MAX_ANSWER. */
interface Outer {
  readonly status: number;
  readonly contentType: string;
  readonly retryAfter: string;
  readonly content: Uint8Array;
}

/** One POST to the relay, as `fetchTransport` sends to a collector, whose code stays as small as it is. */
const post = async (url: string, sealed: Uint8Array, timeout: number, signal: AbortSignal): Promise<Outer> => {
  const ends = new AbortController();
  const end = (): void => ends.abort();
  const timer = setTimeout(end, timeout * 1000);
  signal.addEventListener("abort", end);
  if (signal.aborted) end(); // while the request was encrypted
  try {
    const response = await fetch(url, {
      method: "POST",
      body: sealed as BodyInit,
      headers: { "Content-Type": REQUEST_TYPE },
      keepalive: true,
      credentials: "omit",
      referrerPolicy: "no-referrer",
      cache: "no-store",
      redirect: "error",
      signal: ends.signal,
    });
    return {
      status: response.status,
      contentType: response.headers.get("Content-Type") ?? "",
      retryAfter: response.headers.get("Retry-After") ?? "",
      content: await bytesOf(response),
    };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", end);
  }
};

const bytesOf = async (response: Response): Promise<Uint8Array> => {
  const reader = response.body!.getReader();
  const parts: Uint8Array[] = [];
  for (let size = 0; ; ) {
    const { done, value } = await reader.read();
    if (done) return concat(parts);
    size += value.length;
    if (size > MAX_ANSWER) {
      await reader.cancel();
      return new Uint8Array(0);
    }
    parts.push(value);
  }
};

/**
 * The way to a collector through a relay, and no other: pass it to `open`, as `transport`. Each try
 * of a batch is encrypted again. Throws ParameterError for an invalid address or key.
 */
export const relay = (options: RelayOptions): Transport => {
  const { url, collector, key } = options;
  const [, scheme, host] = COLLECTOR.exec(collector) ?? [];
  if (!RELAY.test(url) || !host) throw new ParameterError("collector_address");
  if (key !== undefined && !/^[!-~]+$/.test(key)) throw new ParameterError("key_characters");
  const config = keyOf(typeof options.keys === "string" ? Uint8Array.from(atob(options.keys), (byte) => byte.charCodeAt(0)) : options.keys);
  const control = ["POST", scheme!, host, "/v1/reports"];
  return async ({ body, contentType, encoding, timeout, signal }) => {
    const fields: Record<string, string> = { "content-type": contentType };
    if (encoding) fields["content-encoding"] = encoding;
    if (key !== undefined) fields["authorization"] = `Bearer ${key}`;
    const { sealed, ...exchange } = await encapsulate(config, encodeRequest(control, fields, body), await (options.newPair ?? newPair)());
    const outer = await post(url, sealed, timeout, signal);
    // what the relay says is not the collector's word: no answer of it ends a batch
    if (outer.status !== 200) return { status: outer.status, contentType: "", retryAfter: outer.retryAfter, text: "" };
    if (outer.contentType !== RESPONSE_TYPE) throw new Error(`status 200, but not ${RESPONSE_TYPE}`);
    const { status, fields: headers, content } = decodeResponse(await openResponse(exchange, outer.content));
    return {
      status,
      contentType: headers.get("content-type") ?? "",
      retryAfter: headers.get("retry-after") ?? "",
      text: new TextDecoder().decode(content),
    };
  };
};
