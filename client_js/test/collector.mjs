// The real collector on loopback, with a server in front of it that fails when it is told to.

import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
// What this suite is told by RAPPOR_ variables is no setting of a collector, which refuses such names.
const { RAPPOR_PYTHON, RAPPOR_CHROMIUM: _, ...ENVIRONMENT } = process.env;
export const PYTHON = RAPPOR_PYTHON ?? join(ROOT, ".venv/bin/python");

/** Why there is no collector to test with; false where there is. */
export const noCollector = existsSync(PYTHON) ? false : `no ${PYTHON}: set RAPPOR_PYTHON`;

const TOML = `
[metrics.homepage]
kind = "string"
description = "Home page"
owner = "o@example.org"
expires = 2099-12-31
num_bits = 128
num_hashes = 2
num_cohorts = 32
prob_f = 0.5
prob_p = 0.5
prob_q = 0.75
max_memoized_values = 10
fallback = "other"
max_reports_per_period = 10000
platforms = ["app", "web"]
lives = 3
max_reports = 1000000

[metrics.crashed]
kind = "boolean"
description = "Whether it crashed"
owner = "o@example.org"
expires = 2099-12-31
prob_f = 0.5
prob_p = 0.25
prob_q = 0.75
max_reports_per_period = 10000
`;

const COMPILE = `
import sys
from rappor_core.metrics.compiled import compiled_text
from rappor_core.metrics.compiled import load_metrics
print(compiled_text(load_metrics(sys.argv[1])))`;

const COUNT = `
import json, sqlite3, sys
rows = sqlite3.connect(sys.argv[1]).execute(
    "SELECT metric, sum(num_reports) FROM counters JOIN series ON series.id = series_id GROUP BY 1")
print(json.dumps(dict(rows)))`;

const RAPPOR = `
import json, sys
from rappor_cli.main import main
for words in json.loads(sys.argv[1]):
    if main(words):
        sys.exit(f"failed: {words}")`;

const python = (code, ...args) =>
  execFileSync(PYTHON, ["-c", code, ...args], { cwd: ROOT, encoding: "utf8", env: { ...ENVIRONMENT, PYTHONPATH: ROOT } });

/**
 * Starts both. `faults` is a list of what happens to the next batches: a status to answer with,
 * "before" and "after" (the connection ends before or after the collector counted), "garbage".
 * endings: what else to end before the folder goes.
 * toml: what is declared.
 * settings: of the collector, as environment. direct: its own address, without the server in front.
 */
export const startCollector = async (t, pages = {}, settings = {}, toml = TOML) => {
  const folder = mkdtempSync(join(tmpdir(), "rappor-js-"));
  const metricsFile = join(folder, "metrics.toml");
  writeFileSync(metricsFile, toml);
  const database = join(folder, "reports.sqlite");
  const words = ["-m", "rappor_cli", "serve", "--metrics", metricsFile, "--database", `sqlite:///${database}`, "--open", "--port", "0"];
  const child = spawn(PYTHON, words, { cwd: ROOT, env: { ...ENVIRONMENT, ...settings } });
  const port = await listening(child);
  const faults = [];
  const seen = { batches: 0 };
  const endings = [];
  const front = createServer((incoming, answer) => serve(incoming, answer, { port, faults, seen, pages }));
  await new Promise((resolve) => front.listen(0, "127.0.0.1", resolve));
  t.after(async () => {
    await Promise.all(endings.map((end) => end())); // browsers, which write into the folder
    front.closeAllConnections();
    front.close();
    child.kill("SIGTERM");
    await new Promise((resolve) => child.once("exit", resolve));
    rmSync(folder, { recursive: true, force: true });
  });
  return {
    folder,
    faults,
    seen,
    endings,
    direct: `http://127.0.0.1:${port}`,
    url: `http://127.0.0.1:${front.address().port}`,
    metrics: JSON.parse(python(COMPILE, metricsFile)),
    /** Reports counted, by metric. */
    counted: () => JSON.parse(python(COUNT, database)),
    /** Runs `rappor` with each of these lists of words, in one process. */
    rappor: (...commands) => python(RAPPOR, JSON.stringify(commands)),
    database: `sqlite:///${database}`,
  };
};

const listening = (child) =>
  new Promise((resolve, reject) => {
    let said = "";
    const read = (data) => {
      said += data;
      const port = /"listening".*?"port": (\d+)/.exec(said)?.[1];
      if (port) resolve(Number(port));
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.once("exit", () => reject(new Error(`the collector ended: ${said}`)));
  });

/** What a relay passes on: the collector refuses headers that show a sender. */
const relayed = (headers) =>
  Object.fromEntries(["host", "content-type", "content-length"].flatMap((name) => (name in headers ? [[name, headers[name]]] : [])));

const serve = (incoming, answer, { port, faults, seen, pages }) => {
  const path = incoming.url.split("?")[0];
  if (incoming.method === "GET" && pages[path]) {
    const [type, text] = pages[path];
    return answer.writeHead(200, { "Content-Type": type }).end(text);
  }
  const fault = faults.shift();
  seen.batches++;
  if (fault === "before") return incoming.destroy();
  if (fault === "garbage") return incoming.resume().on("end", () => answer.writeHead(200).end("<html>Log in</html>"));
  if (typeof fault === "number") {
    return incoming.resume().on("end", () => answer.writeHead(fault, { "Retry-After": "0" }).end("no"));
  }
  const headers = path === "/v1/ohttp" ? relayed(incoming.headers) : incoming.headers;
  const onward = request({ port, host: "127.0.0.1", path, method: incoming.method, headers }, (said) => {
    if (fault === "after") return said.resume().on("end", () => incoming.destroy());
    answer.writeHead(said.statusCode, said.headers);
    said.pipe(answer);
  });
  onward.on("error", () => answer.writeHead(502).end());
  incoming.pipe(onward);
};
