// Progress of a job: asks the service each second, and loads the page again when it is over.
"use strict";
(() => {
const place = document.getElementById("progress");
if (!place) return;
const LIVE = ["queued", "running", "cancelling"];
const set = (id, text) => { document.getElementById(id).textContent = text; };
async function look() {
  let job;
  try {
    const answer = await fetch("/v1/jobs/" + place.dataset.job, { headers: { Accept: "application/json" } });
    if (answer.status === 401 || answer.status === 404) { location.reload(); return; }
    job = await answer.json();
  } catch {
    set("stage", "the service does not answer; trying again");
    setTimeout(look, 3000);
    return;
  }
  if (!answerable(job)) return;
  set("state", job.state);
  document.getElementById("state").className = "state " + job.state;
  set("stage", job.stage);
  const bar = document.getElementById("bar");
  if (job.total > 0) { bar.max = job.total; bar.value = Math.min(job.done, job.total); } else bar.removeAttribute("value");
  setTimeout(look, 1000);
}
function answerable(job) {
  if (LIVE.includes(job.state)) return true;
  location.reload();
  return false;
}
setTimeout(look, 1000);
})();
