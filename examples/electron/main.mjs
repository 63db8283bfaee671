// The main process of an Electron app: the state is a directory of the app's own.

import { app } from "electron";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { openClient } from "rappor-telemetry-client/node";

await app.whenReady();
const client = await openClient({
  metrics: readFileSync(join(app.getAppPath(), "metrics.json"), "utf8"),
  stateDir: join(app.getPath("userData"), "telemetry"),
  collector: "https://telemetry.example.org",
  consent: true, // ask the person, and pass the answer
});
await client.record("crashed", false);
app.on("will-quit", () => void client.close());
