/** How a batch reaches the collector: by `fetch`, without credentials, cookies or referrer. */

import type { Response as Answer } from "../core/answers.js";
import { ParameterError } from "../core/errors.js";

/** A batch to be sent. encoding: "gzip" or "". timeout: seconds. signal: once aborted, nothing leaves. */
export interface Request {
  readonly body: Uint8Array;
  readonly contentType: string;
  readonly encoding: string;
  readonly timeout: number;
  readonly signal: AbortSignal;
}

/** Sends one batch. Rejects where nothing came back. */
export type Transport = (request: Request) => Promise<Answer>;

export const MAX_ANSWER = 4 << 20;
const ADDRESS = /^(https?):\/\/(\[[\da-f:.]+\]|[^\s/?#@:[\]]+)(:\d{1,5})?(\/[^\s?#]*)?$/i;
const LOOPBACK = /^(localhost|\[::1\]|127\.\d+\.\d+\.\d+)$/i;

/**
 * The address of batches. Throws ParameterError for an invalid address, or one that would show the key.
 * (React Native has no whole `URL`.)
 */
export const batchUrl = (collector: string, key: string | undefined, development: boolean): string => {
  const [, scheme, host] = ADDRESS.exec(collector) ?? [];
  if (!scheme) throw new ParameterError("collector_address");
  if (key !== undefined) {
    if (!/^[!-~]+$/.test(key)) throw new ParameterError("key_characters");
    if (scheme.toLowerCase() === "http" && !LOOPBACK.test(host!) && !development) throw new ParameterError("key_over_http");
  }
  return `${collector.replace(/\/$/, "")}/v1/reports`;
};

export const headersOf = (contentType: string, encoding: string, key: string | undefined): Record<string, string> => ({
  "Content-Type": contentType,
  ...(encoding && { "Content-Encoding": encoding }),
  ...(key !== undefined && { Authorization: `Bearer ${key}` }),
});

/**
 * The platform's `fetch`. url: of `batchUrl`. The request outlives its page (keepalive), but after a
 * failure: all such requests of a page together may have 64 KiB.
 */
export const fetchTransport = (url: string, key: string | undefined): Transport => {
  let keepalive = true;
  return async ({ body, contentType, encoding, timeout, signal }) => {
    const ends = new AbortController();
    const end = (): void => ends.abort();
    const timer = setTimeout(end, timeout * 1000);
    signal.addEventListener("abort", end);
    let isAnswered = false;
    try {
      const response = await fetch(url, {
        method: "POST",
        body: body as BodyInit,
        headers: headersOf(contentType, encoding, key),
        keepalive,
        credentials: "omit",
        referrerPolicy: "no-referrer",
        cache: "no-store",
        redirect: "error",
        signal: ends.signal,
      });
      isAnswered = true;
      return {
        status: response.status,
        contentType: response.headers.get("Content-Type") ?? "",
        retryAfter: response.headers.get("Retry-After") ?? "",
        text: await bounded(response),
      };
    } finally {
      keepalive = isAnswered || !keepalive;
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
    }
  };
};

/** The text of an answer; "" for more than a collector ever says. */
const bounded = async (response: Response): Promise<string> => {
  const reader = typeof TextDecoder === "undefined" ? undefined : response.body?.getReader?.();
  if (!reader) return response.text(); // React Native
  const decoder = new TextDecoder();
  let text = "";
  for (let size = 0; ; ) {
    const { done, value } = await reader.read();
    if (done) return text;
    size += value.length;
    if (size > MAX_ANSWER) {
      await reader.cancel();
      return "";
    }
    text += decoder.decode(value, { stream: true });
  }
};
