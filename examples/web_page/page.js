// Bundled by `npm run build`; served with index.html and metrics.json from the address that passes
// /v1/reports on.

import { openClient } from "rappor-telemetry-client/browser";

const [consent, record, send, account] = ["consent", "record", "send", "account"].map((id) => document.getElementById(id));
const metrics = await (await fetch("metrics.json")).json();
consent.checked = localStorage.getItem("consent") === "yes";
const client = await openClient({ metrics, collector: location.origin, consent: consent.checked });

const show = async () => {
  account.textContent = JSON.stringify(await client.inspect(), null, 2);
};

consent.addEventListener("change", async () => {
  localStorage.setItem("consent", consent.checked ? "yes" : "no");
  await client.setConsent(consent.checked);
  await show();
});
record.addEventListener("click", async () => {
  await client.record("homepage", "https://example.org/");
  await show();
});
send.addEventListener("click", async () => {
  await client.flush(10); // without it, reports wait 10 minutes on average, so that they reveal no time
  await show();
});
await show();
