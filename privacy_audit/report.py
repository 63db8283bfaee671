"""The identity of the audited code, and the result as JSON and as a self-contained page."""

import json
import math
import os
import platform
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import date
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import client_sdk
import rappor_core
from decoder.output.jinja import page_template
from privacy_audit.audit import AuditResult
from privacy_audit.black_box.checks import Check
from rappor_core.metrics.metric import Metric
from rappor_core.risk import believed, risk_of
from rappor_core.sequence_risk import risk_text, sequence_risk

VERSION = 3
ENDINGS = frozenset({".py", ".mjs", ".js", ".cjs", ".json", ".wasm"})
SKIPPED = frozenset({"node_modules", "__pycache__", ".git"})
NAME = "rappor-telemetry"
DEFAULT_METRICS = Path(__file__).with_name("default_metrics.toml")


ATTACKS = "Anyone who sees the reports learns more about a person than declared."
BROKEN = {
    "encoder": "One report can reveal the value, or its noise biases all results.",
    "device": "Reports of a device reveal more than declared, or bias all results.",
    "answers": "A device's answers depend on more than declared, or do not end when they must.",
    "freshness": "Anyone who tries all seeds can compute a device's noise and remove it.",
    "derivations": "Responses of one device reveal each other, or change and average out.",
    "app": "Anyone who sees requests or the device's files can learn values or identify a device.",
}  # by the part of the audit


def consequence(check: Check) -> str:
    """Explain what a broken claim means for users."""
    return BROKEN[check.part] if check.attack is None else ATTACKS


def to_dict(result: AuditResult, day: date, audited: "AuditedCode") -> dict[str, Any]:
    """Return the result as plain values for JSON; infinities are null.

    Args:
        result: The result of an audit.
        day: The day of the audit.
        audited: The identity of the audited code.
    """
    options = result.options
    return {
        "version": VERSION,
        "client": result.client,
        "day": day.isoformat(),
        "held": not result.broken,
        "stopped": result.stopped,
        "alpha": options.alpha,
        "level_of_each_test": result.level,
        "trials": options.trials,
        "audited": asdict(audited),
        "not_tested": [f"{check.metric}: {check.what}" for check in result.untested],
        "metrics": [_promise(metric) for metric in result.metrics],
        "checks": [_finite(check.to_dict(result.level)) for check in result.checks],
        "notes": list(result.notes),
    }


def page(result: AuditResult, day: date, audited: "AuditedCode") -> str:
    """Return the HTML page: verdict, findings, untested claims, and all claims by promise."""
    template = page_template("audit.html.j2", "privacy_audit", nats=nats, percent=percent)
    return template.render(
        result=result,
        day=day.isoformat(),
        promises=[_promise(metric) for metric in result.metrics],
        risks=[(m.base_name, risk_text(m)) for m in result.metrics],
        identity=audited,
        findings=[(consequence(check), check) for check in result.broken],
        attacks=[check for check in result.checks if check.attack is not None],
        groups={
            part: [c for c in result.checks if c.attack is None and c.part == part]
            for part in BROKEN
        },
    )


def nats(value: float | None) -> str:
    """Return an epsilon with three decimals, or "no bound"."""
    if value is None or math.isinf(value):
        return "no bound"
    return f"{value:.3f}"


def percent(value: float | None) -> str:
    """Format a fraction as a percentage; "-" if None."""
    return "-" if value is None else f"{value:.0%}"


def _promise(metric: Metric) -> dict[str, Any]:
    params, risk = metric.params, risk_of(metric)
    return {
        "name": metric.base_name,
        "params_id": metric.params_id,
        "kind": metric.kind,
        "epsilon_one": risk.report,
        "epsilon_7": params.epsilon_n(7),
        "epsilon_30": params.epsilon_n(30),
        "epsilon_infinity": _number(params.epsilon_infinity),
        "lifetime_epsilon": _number(risk.worst),
        "epsilon_sequence": sequence_risk(metric).to_dict(),
        "belief_after_one_report": believed(risk.report),
        "belief_ever": believed(risk.worst),
    }


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return _number(value) if isinstance(value, float) else value


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class AuditedCode:
    """The identity of audited code."""

    name: str
    version: str
    digest: str  # the digest of its files
    files: int
    machine: str  # the machine on which it ran


def identity(command: str | None) -> AuditedCode:
    """Return the identity of this project's SDK (None), or of the program behind a command.

    The digest covers the SDK's packages, or the files that the command names and their folders, up
    to the nearest one with a package.json.
    """
    if command is None:
        folders = [Path(str(module.__file__)).parent for module in (client_sdk, rappor_core)]
    else:
        named = (Path(word).resolve() for word in shlex.split(command))
        code = (path for path in named if path.is_file() and path.suffix in ENDINGS)
        folders = [
            next((root for root in path.parents if (root / "package.json").is_file()), path)
            for path in code
        ]
    files = sorted({path for folder in folders for path in _code(folder)})
    whole = sha256()
    for path in files:
        whole.update(f"{path.name} {path.stat().st_size}\n".encode() + path.read_bytes())
    name, number = _named(folders, command)
    machine = (
        f"{platform.node()}: {platform.system()} {platform.release()}, {platform.machine()}, "
        f"{os.cpu_count()} processors, Python {platform.python_version()}"
    )
    return AuditedCode(name, number, whole.hexdigest() if files else "", len(files), machine)


def _named(folders: list[Path], command: str | None) -> tuple[str, str]:
    if command is None:
        try:
            return f"client_sdk ({NAME})", version(NAME)
        except PackageNotFoundError:
            return "client_sdk", "from a source tree"
    for declared in (folder / "package.json" for folder in folders):
        if declared.is_file():
            package = json.loads(declared.read_text(encoding="utf-8"))
            return str(package.get("name", command)), str(package.get("version", "unknown"))
    return command, "unknown"


def _code(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*") if folder.is_dir() else [folder]:
        inside = path.relative_to(folder).parts
        if path.suffix in ENDINGS and path.is_file() and not SKIPPED.intersection(inside):
            yield path
