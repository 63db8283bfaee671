/** How a batch reaches the collector in Node: by `node:http`. Its `fetch` connects again after it was aborted. */

import { request as overHttp, type IncomingMessage } from "node:http";
import { request as overHttps } from "node:https";
import { gunzipSync } from "node:zlib";
import { headersOf, MAX_ANSWER, type Transport } from "./transport.js";

/** A connection for each batch, by which no two can be linked. url: of `batchUrl`. */
export const httpTransport =
  (url: string, key: string | undefined): Transport =>
  async ({ body, contentType, encoding, timeout, signal }) => {
    if (signal.aborted) throw new Error("aborted");
    const address = new URL(url);
    const headers = { ...headersOf(contentType, encoding, key), "Content-Length": body.length };
    const begin = address.protocol === "https:" ? overHttps : overHttp;
    const request = begin(address, { method: "POST", headers, agent: false });
    const end = (): void => void request.destroy(new Error("aborted"));
    const timer = setTimeout(end, timeout * 1000);
    signal.addEventListener("abort", end);
    try {
      const response = await new Promise<IncomingMessage>((resolve, reject) => {
        const closed = (): void => reject(new Error("closed without an answer")); // after 101 nothing else shows it
        request.on("response", resolve).on("error", reject).on("close", closed).end(body);
      });
      const { "content-type": type = "", "retry-after": retryAfter = "" } = response.headers;
      return { status: response.statusCode!, contentType: type, retryAfter, text: await textOf(response) };
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      request.destroy();
    }
  };

/** The text of an answer, which a gateway may have compressed unasked; "" for more than a collector ever says. */
const textOf = async (response: IncomingMessage): Promise<string> => {
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of response as AsyncIterable<Buffer>) {
    if ((size += piece.length) > MAX_ANSWER) return "";
    pieces.push(piece);
  }
  const whole = Buffer.concat(pieces);
  return (response.headers["content-encoding"] === "gzip" ? gunzipSync(whole, { maxOutputLength: MAX_ANSWER }) : whole).toString();
};
