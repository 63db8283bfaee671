// A process that opens a state when it is told to, records, and lets go of it.

import { openClient } from "../dist/node.js";
import { vectors } from "./vectors.mjs";

const { document } = vectors("platforms");
let client;
let day = 20_000;

const ACTS = {
  open: async ({ stateDir }) => {
    client = await openClient({ metrics: document, stateDir, consent: true, collector: "http://127.0.0.1:1", doNotTrack: () => false,
      clock: () => day * 86_400, delivery: { meanDelay: 3600 }, transport: async () => { throw new TypeError("offline"); } });
    return client.status.condition;
  },
  record: async () => {
    const told = await client.record("disk", `value ${day++ % 2}`);
    return told ? "true" : client.status.condition;
  },
  "pass on": async () => {
    if (client.status.condition === "active") await client.close();
    else if (client.status.condition !== "closed") await client.record("disk", `value ${day++ % 2}`);
    return client.status.condition;
  },
};

process.on("message", async ({ act, at = 0, ...rest }) => {
  while (Date.now() < at) await new Promise((resolve) => setTimeout(resolve, at - Date.now()));
  process.send(await ACTS[act](rest).catch(String));
});
process.send("ready");
