// Serves out/ on http://127.0.0.1:8080, and forwards /v1/reports to the collector, as your proxy would.

import { readFile } from "node:fs/promises";
import { createServer, request } from "node:http";

const COLLECTOR = process.env.COLLECTOR ?? "http://127.0.0.1:8000";
const TYPES = { html: "text/html", js: "text/javascript", json: "application/json" };

createServer(async (incoming, response) => {
  if (incoming.url === "/v1/reports") {
    const { method, headers } = incoming;
    const forwarded = request(`${COLLECTOR}/v1/reports`, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    forwarded.on("error", () => (response.headersSent ? response.destroy() : response.writeHead(502).end()));
    incoming.pipe(forwarded);
    return;
  }
  const name = incoming.url === "/" ? "index.html" : incoming.url.slice(1);
  const type = /^[a-z]+\.(html|js|json)$/.exec(name)?.[1];
  const content = type && (await readFile(new URL(`out/${name}`, import.meta.url)).catch(() => undefined));
  response.writeHead(content ? 200 : 404, { "content-type": TYPES[type] ?? "text/plain" }).end(content);
}).listen(8080, "127.0.0.1", () => console.log("http://127.0.0.1:8080"));
