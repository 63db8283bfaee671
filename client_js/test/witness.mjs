// A collector that answers what it is told to, and bears witness: what came in after its books were closed.

import { createServer } from "node:http";
import { gunzipSync } from "node:zlib";
import { decodeBatch } from "../dist/core/decode.js";
import { digestOf } from "../dist/core/seal.js";
import { vectors } from "./vectors.mjs";

const homepage = structuredClone(vectors("compiled").good.metrics.document.metrics.find(({ definition }) => definition.name === "homepage"));
Object.assign(homepage.definition, {
  max_memoized_values: 1e6, max_reports_per_period: 10_000, max_reports: 1e9, platforms: ["app", "web"], lives: 3,
});
const DOCUMENT = { version: 1, budget: null, metrics: [homepage] };

/** One metric, `homepage`, that takes as many reports as a test makes, in a browser as elsewhere. */
export const METRICS = { ...DOCUMENT, digest: digestOf(DOCUMENT) };

const accepted = (body, request) => {
  const plain = request.headers["content-encoding"] === "gzip" ? gunzipSync(body) : body;
  const { id, reports } = decodeBatch(new Uint8Array(plain), request.headers["content-type"]);
  return JSON.stringify({ version: 1, batch_id: id, duplicate: false, results: reports.map(() => ({ status: "accepted" })) });
};

/**
 * A server on loopback. pages: by path, type and text. delay: milliseconds until an answer, or a promise.
 * `late` counts pieces of bodies that came after `GET /close`, up to `GET /open`. What had left before a
 * client asked for `/close` has been read when that is answered: this process reads what is there first.
 */
export const startWitness = async (t, { pages = {}, delay = () => 0 } = {}) => {
  const said = { bodies: 0, begun: 0, late: 0, isOpen: true, url: "" };
  const server = createServer(async (request, answer) => {
    request.on("error", () => undefined);
    const path = request.url.split("?")[0];
    if (pages[path]) return answer.writeHead(200, { "Content-Type": pages[path][0] }).end(pages[path][1]);
    if (path === "/open" || path === "/close") {
      for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
      said.isOpen = path === "/open";
      return answer.end(String(said.late));
    }
    said.begun++;
    const pieces = [];
    request.on("data", (piece) => {
      if (!said.isOpen) said.late++;
      pieces.push(piece);
    });
    request.on("end", async () => {
      said.bodies++;
      const body = Buffer.concat(pieces);
      await delay(said);
      if (!answer.destroyed) answer.writeHead(200, { "Content-Type": "application/json" }).end(accepted(body, request));
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  said.url = `http://127.0.0.1:${server.address().port}`;
  t.after(() => void (server.closeAllConnections(), server.close()));
  return said;
};
