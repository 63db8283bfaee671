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

const MOST_ANSWER = 4 << 20;
const ADDRESS = /^(https?):\/\/(\[[\da-f:.]+\]|[^\s/?#@:[\]]+)(:\d{1,5})?(\/[^\s?#]*)?$/i;
const LOOPBACK = /^(localhost|\[::1\]|127\.\d+\.\d+\.\d+)$/i;

/**
 * The address of batches. Throws ParameterError for what is no address, or would show the key.
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

/** The platform's `fetch`. url: of `batchUrl`. The request outlives its page (keepalive). */
export const fetchTransport =
  (url: string, key: string | undefined): Transport =>
  async ({ body, contentType, encoding, timeout, signal }) => {
    const headers: Record<string, string> = { "Content-Type": contentType };
    if (encoding) headers["Content-Encoding"] = encoding;
    if (key !== undefined) headers["Authorization"] = `Bearer ${key}`;
    const ends = new AbortController();
    const end = (): void => ends.abort();
    const timer = setTimeout(end, timeout * 1000);
    signal.addEventListener("abort", end);
    try {
      const response = await fetch(url, {
        method: "POST",
        body: body as BodyInit,
        headers,
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
        text: await bounded(response),
      };
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
    }
  };

/** The text of an answer; "" for more than a collector ever says. */
const bounded = async (response: Response): Promise<string> => {
  const reader = response.body?.getReader();
  if (!reader) return response.text();
  const decoder = new TextDecoder();
  let text = "";
  for (let size = 0; ; ) {
    const { done, value } = await reader.read();
    if (done) return text;
    size += value.length;
    if (size > MOST_ANSWER) {
      await reader.cancel();
      return "";
    }
    text += decoder.decode(value, { stream: true });
  }
};
