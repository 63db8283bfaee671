"""Compare what a value costs in the three clients, in turns on one machine, and show the sizes.

Run `python client_kotlin/scripts/speed.py` after `make js-built kotlin-built`. Each figure is a
median of batches, in microseconds; a durable record is kept when it is acknowledged.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROUNDS = 3
BUILD = ROOT / "build" / "kotlin"
STDLIB = ROOT / "client_kotlin/node_modules/kotlin-compiler/lib/kotlin-stdlib.jar"
PYTHON = """
import json, os, tempfile, time
from client_sdk import Client, Delivery, Encoder, parse_metrics
from tests.metric_texts import declaration
text = declaration("homepage", "string", num_bits=128, num_hashes=2, num_cohorts=32, prob_f=0.5, prob_p=0.5,
                   prob_q=0.75, max_memoized_values=3, fallback="other", max_reports_per_period=10000)
file, count = parse_metrics(text), iter(range(10**9))
def median(batches, number, act):
    times = []
    for _ in range(batches):
        begun = time.perf_counter()
        for _ in range(number):
            act()
        times.append((time.perf_counter() - begun) * 1e6 / number)
    return sorted(times[batches // 4:])[(batches - batches // 4) // 2]
device = Encoder(file.metrics, os.urandom(32)).metric("homepage")
def encoded(value):
    bits = device.value_bits(value)
    device.digest(bits), device.report_bits(bits)
fresh = median(40, 500, lambda: encoded(f"https://example.org/page/{next(count)}"))
known = median(40, 2500, lambda: encoded("https://example.org/"))
with tempfile.TemporaryDirectory() as folder:
    delivery = Delivery(mean_delay=3600)
    client = Client.open(file, state_dir=folder, collector="http://127.0.0.1:9", consent=True, delivery=delivery)
    durable = median(40, 50, lambda: client.record("homepage", "value"))
    client.close()
print(json.dumps({"fresh": fresh, "known": known, "durable": durable}))
"""
NODE = """
import { randomFillSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { openClient } from "./client_js/dist/node.js";
import { MetricEncoder } from "./client_js/dist/core/device.js";
import { readMetrics } from "./client_js/dist/index.js";
import { METRICS } from "./client_js/test/witness.mjs";
const device = new MetricEncoder(readMetrics(METRICS).metrics.get("homepage"), new Uint8Array(32).fill(7), (n) => randomFillSync(new Uint8Array(n)));
let count = 0;
const encoded = (value) => { const bits = device.valueBits(value); device.digest(bits); device.reportBits(bits); };
const median = async (batches, number, act) => {
  const times = [];
  for (let i = 0; i < batches; i++) {
    const begun = performance.now();
    for (let j = 0; j < number; j++) await act();
    times.push(((performance.now() - begun) * 1000) / number);
  }
  return times.slice(batches / 4).sort((a, b) => a - b)[(batches * 3) >> 3];
};
const fresh = await median(40, 500, () => encoded("https://example.org/page/" + count++));
const known = await median(40, 2500, () => encoded("https://example.org/"));
const stateDir = mkdtempSync("/tmp/rappor-speed-");
const client = await openClient({ metrics: METRICS, stateDir, consent: true, collector: "http://127.0.0.1:9", doNotTrack: () => false, delivery: { meanDelay: 3600 } });
const durable = await median(40, 50, () => client.record("homepage", "value"));
await client.close();
rmSync(stateDir, { recursive: true });
console.log(JSON.stringify({ fresh, known, durable }));
"""


def measured(words: list[str]) -> dict[str, float]:
    """Run a program from the root of the repository; return what it printed last."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "DO_NOT_TRACK": ""}
    done = subprocess.run(  # noqa: S603
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Print a row for each client and the size of the jar."""
    path = f"{BUILD / 'classes'}:{BUILD / 'tests'}:{STDLIB}"
    programs = {
        "Kotlin": ["java", f"-Drappor.root={ROOT}", "-cp", path, "rappor.telemetry.SpeedKt"],
        "TypeScript (Node)": ["node", "--input-type=module", "-e", NODE],
        "Python": [sys.executable, "-c", PYTHON],
    }
    rows = {name: [measured(words) for _ in range(ROUNDS)] for name, words in programs.items()}
    print("| client | new value | known value | durable record |")
    print("|---|---|---|---|")
    for name, figures in rows.items():
        best = [min(row[key] for row in figures) for key in ("fresh", "known", "durable")]
        print(f"| {name} | {best[0]:.1f} us | {best[1]:.1f} us | {best[2]:.0f} us |")
    size = (BUILD / "rappor-telemetry-client.jar").stat().st_size
    print(f"jar: {size / 1000:.0f} kB; Kotlin's library {STDLIB.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
