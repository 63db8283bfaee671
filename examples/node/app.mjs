import { readFileSync } from "node:fs";
import { openClient } from "rappor-telemetry-client/node";

const client = await openClient({
  metrics: readFileSync("metrics.json", "utf8"), // rappor metrics compile metrics.toml -o metrics.json
  stateDir: "state", // a directory of the client's own, kept as long as the app is installed
  collector: process.env.COLLECTOR ?? "http://127.0.0.1:8000",
  consent: true, // what the person answered
});
await client.record("homepage", "https://example.org/");
console.log((await client.flush(5)) ? "delivered" : client.status.sentence);
await client.close();
