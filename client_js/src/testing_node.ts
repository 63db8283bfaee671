/** As /testing, and the collector behind real HTTP on loopback. */

import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { MemoryCollector } from "./testing.js";

export * from "./testing_app.js";

const MAX_BODY = 4 << 20;

const bodyOf = async (request: IncomingMessage): Promise<Uint8Array> => {
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of request as AsyncIterable<Buffer>) {
    if ((size += piece.length) > MAX_BODY) throw new RangeError("a body of more than 4 MiB");
    pieces.push(piece);
  }
  return new Uint8Array(Buffer.concat(pieces));
};

/**
 * Serve a collector on a free port of loopback, for pages of any origin. What it throws ends the
 * connection without a word. url: its address. close: ends it.
 */
export const listen = async (collector: MemoryCollector): Promise<{ readonly url: string; close(): Promise<void> }> => {
  const server: Server = createServer((request, response) => {
    const open = { "Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "*" };
    if (request.method === "OPTIONS") return void response.writeHead(204, open).end();
    if (request.url !== "/v1/reports") return void response.writeHead(404, open).end();
    const { "content-type": contentType = "", "content-encoding": encoding = "" } = request.headers;
    bodyOf(request)
      .then((body) => collector.transport({ body, contentType, encoding }))
      .then(
        ({ status, contentType: type, retryAfter, text }) =>
          response.writeHead(status, { ...open, "Content-Type": type, ...(retryAfter && { "Retry-After": retryAfter }) }).end(text),
        () => response.destroy(),
      );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
};
