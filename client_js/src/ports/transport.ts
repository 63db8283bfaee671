/** How a batch reaches the collector: by `fetch`, without credentials, cookies or referrer. */

import type { Response as Answer } from "../core/answers.js";
import { ParameterError } from "../core/errors.js";

/** A batch to be sent. encoding: "gzip" or "". timeout: seconds. */
export interface Request {
  readonly body: Uint8Array;
  readonly contentType: string;
  readonly encoding: string;
  readonly timeout: number;
}

/** Sends one batch. Rejects where nothing came back. */
export type Transport = (request: Request) => Promise<Answer>;

const MOST_ANSWER = 4 << 20;
const LOOPBACK = /^(localhost|\[::1\]|127\.\d+\.\d+\.\d+)$/;

/** The address of batches. Throws ParameterError for what is no address, or would show the key. */
export const batchUrl = (collector: string, key: string | undefined, development: boolean): string => {
  let url: URL | undefined;
  try {
    url = new URL(collector);
  } catch {
    // said below
  }
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.search || url.hash) {
    throw new ParameterError("`collector` is not an address such as https://host:port/prefix");
  }
  if (key !== undefined && !/^[!-~]+$/.test(key)) {
    throw new ParameterError("the key holds characters that a header cannot carry, or none");
  }
  if (key !== undefined && url.protocol === "http:" && !LOOPBACK.test(url.hostname) && !development) {
    throw new ParameterError("over plain http anybody on the way can read the key; use https");
  }
  return `${url.origin}${url.pathname.replace(/\/$/, "")}/v1/reports`;
};

/** The platform's `fetch`. url: of `batchUrl`. The request outlives its page (keepalive). */
export const fetchTransport =
  (url: string, key: string | undefined): Transport =>
  async ({ body, contentType, encoding, timeout }) => {
    const headers: Record<string, string> = { "Content-Type": contentType };
    if (encoding) headers["Content-Encoding"] = encoding;
    if (key !== undefined) headers["Authorization"] = `Bearer ${key}`;
    const ends = new AbortController();
    const timer = setTimeout(() => ends.abort(), timeout * 1000);
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
