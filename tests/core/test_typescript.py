"""Typed accessors for the TypeScript client: what the compiler takes, and what it refuses."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from metric_design.typed_accessors import typescript_text
from rappor_cli.main import main
from rappor_core.metrics.file import parse_metrics
from tests.client.conftest import METRICS
from tests.client.location_support import DECLARED, MEMO
from tests.flow_support import flow_text
from tests.metric_texts import declaration

CLIENT = Path(__file__).parents[2] / "client_js"
TSC = CLIENT / "node_modules" / ".bin" / "tsc"
TRIPS = (DECLARED + MEMO).replace("metrics.density", "metrics.trips") + "pairs = true\n"
PAIR = declaration(
    "theme_crashed", "pair", of=["theme", "crashed"],
    epsilon_infinity=3.0, epsilon_one=2.0, max_memoized_values=6,
)  # fmt: skip
NUMBER = declaration(
    "startup", "number", unit="ms", of_period="median", edges=[100, 400], none="apart",
    mode="memo", epsilon_infinity=1.0, epsilon_one=0.9,
)  # fmt: skip
SUM = NUMBER.replace("startup", "crashes").replace("median", "sum")
DISCOVER = declaration(
    "site", "discover", epsilon_infinity=4.0, max_reports=1, max_memoized_values=2,
    fallback="other",
)  # fmt: skip
COIN = {"prob_f": 0.5, "prob_p": 0.35, "prob_q": 0.65}
KINDS = NUMBER + SUM + PAIR + DISCOVER + flow_text()
TEXT = (METRICS + DECLARED + MEMO + TRIPS).replace("Colors in use", "In use */ \u00e4") + KINDS
PAIRED, FLOW, PLACE = METRICS + PAIR, flow_text(), DECLARED + MEMO
GOOD = """
await metrics.homepage.record("https://example.org/");
const done: boolean = await metrics.theme.record("dark");
await metrics.crashed.record(done);
await metrics.density.recordLocation(42.36, -72.54);
await metrics.trips.recordTrip([42.36, -72.54], [42.37, -72.5]);
await metrics.commute.recordLocation(42.36, -72.54);
await metrics.startup.record(812.5);
await metrics.crashes.add();
await metrics.crashes.add(2);
await metrics.site.record("example.org");
await metrics.theme_crashed.record(["dark", true]);
const state = { storage: new MemoryStorage(), collector: "http://x", consent: true };
await Client.open({ ...parts(), ...state, metrics: "{}" });
"""
BAD = (
    "metrics.hompage.record('x');",
    "metrics.homepage.record(3);",
    "metrics.theme.record('pink');",
    "metrics.density.record('0-0-0');",
    "metrics.trips.recordLocation(42, 3);",
    "metrics.trips.recordTrip([42.36], [42.37, -72.5]);",
    "metrics.commute.record('a>b');",
    "metrics.startup.add(1);",
    "metrics.theme_crashed.record(['dark', 'true']);",
    "metrics.theme_crashed.record('dark | true');",
)


def test_the_command_writes_it_under_its_own_ending(tmp_path, capsys) -> None:
    source, output = tmp_path / "metrics.toml", tmp_path / "metrics.ts"
    source.write_text(TEXT)
    asked = ["metrics", "compile", str(source), "--typescript", "-o"]
    assert main([*asked, str(output)]) == 0
    assert output.read_text() == typescript_text(parse_metrics(TEXT))
    assert "10 metrics" in capsys.readouterr().out
    assert main([*asked, str(tmp_path / "metrics.json")]) == 2
    assert ".ts" in capsys.readouterr().err


@pytest.mark.skipif(
    shutil.which("node") is None or not TSC.exists(), reason="no Node, or no npm ci in client_js"
)
def test_the_compiler_takes_only_what_is_declared(tmp_path) -> None:
    options = json.loads((CLIENT / "tsconfig.json").read_text())["compilerOptions"]
    options |= {"noEmit": True, "rootDir": "/", "types": [], "allowImportingTsExtensions": True}
    package, sources = "rappor-telemetry-client", CLIENT / "src"
    options["paths"] = {
        package: [str(sources / "index.ts")],
        f"{package}/domains": [str(sources / "domains.d.ts")],
        f"{package}/*": [str(sources / "*.ts")],
    }
    del options["outDir"], options["declaration"]
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "node_modules").symlink_to(CLIENT / "node_modules")
    (tmp_path / "metrics.ts").write_text(typescript_text(parse_metrics(TEXT)))
    head = (
        'import { Client, MemoryStorage } from "rappor-telemetry-client";\n'
        'import { metricsOf, parts } from "./metrics.ts";\n'
        "declare const client: Client;\nexport const metrics = metricsOf(client);\n"
        "export const used = [parts, MemoryStorage];\n"
    )
    for number, alone in enumerate((METRICS, SUM, PAIRED, DISCOVER, FLOW, PLACE, TRIPS)):
        text = typescript_text(parse_metrics(alone))  # whatever of it is not used is an error
        (tmp_path / f"alone{number}.ts").write_text(text)
    (tmp_path / "good.ts").write_text(head + GOOD)
    for number, line in enumerate(BAD):
        (tmp_path / f"bad{number}.ts").write_text(head + line)
    (tmp_path / "tsconfig.json").write_text(
        json.dumps({"compilerOptions": options, "include": ["*.ts"]})
    )
    done = subprocess.run(
        [TSC, "--noEmit", "-p", tmp_path], cwd=tmp_path, env=os.environ, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    wrong = {line.partition("(")[0] for line in done.stdout.splitlines() if "error" in line}
    assert wrong == {f"bad{number}.ts" for number in range(len(BAD))}, done.stdout
