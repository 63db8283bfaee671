"""The audit of an app that contains the client, based on its requests and files.

The app is a program with a collector and a disk. Devices of two groups record different values. The
audit uses only an app's operations: open, record, send, withdraw, close. Anything in the files
about a value must depend on a device's own secret. So no byte sequence may appear in the files of
all devices with one value but no device with the other. This covers raw values, encodings, digests
without the secret, and places visited in past periods. Every sequence of three bytes is examined.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from privacy_audit.black_box.checks import Check, exact, one_of, test
from privacy_audit.black_box.program_client import OWN_MODULE, Value
from privacy_audit.black_box.requests import batch_of, request_checks
from privacy_audit.black_box.scenarios import disjoint, reports_at_once, values_of
from privacy_audit.black_box.watched_app import OFTEN, AppDevice, watch
from rappor_core.metrics.compiled import compiled_text
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.metrics.validation import APP

PART: Final = "app"
DEVICES = 16  # in each group
PAD_TO = 256
HEADERS = {
    "Accept-Encoding": "identity",
    "User-Agent": "rappor/1",
    "Content-Type": "application/vnd.rappor.batch",
    "Content-Encoding": "gzip",
}  # the headers in docs/client.md, in addition to Host and Content-Length
SHORTEST = 6  # the minimum number of bytes of a value that is searched for in files
RUN = 16  # the length of a byte sequence that only one device's state can contain
LENGTHS = 3, 6  # the lengths of byte sequences shared by devices with the same value
MIN_RUNS = 6  # consecutive sequences that reveal a secret of 22 bytes or more


def app_checks(chosen: list[Metric], command: str, processes: int, devices: int) -> Iterator[Check]:
    """Yield all checks of an app.

    Args:
        chosen: The metrics; skips those for which `record` queues no report immediately.
        command: The program.
        processes: The number of programs that run at the same time.
        devices: The number of devices in each group.

    Raises:
        AuditError: The program cannot be run.
        AuditedClientError: The program refuses a command.
    """
    metrics = [m for m in chosen if APP in m.platforms and reports_at_once(m)]
    if not metrics:
        return
    often = metrics[0].replace(
        name="audit-often", max_reports_per_period=2 * OFTEN, max_reports=2 * OFTEN, lives=None,
        platforms=(APP,), no_data=None,
    )  # fmt: skip
    metrics.append(often)  # a device sends several batches for it
    file = MetricsFile({metric.name: metric for metric in metrics})
    pairs = {m.name: disjoint(m, values_of(m)) for m in metrics}
    groups = [{name: pair[which] for name, pair in pairs.items()} for which in (0, 1)]
    with (
        tempfile.TemporaryDirectory(prefix="rappor-audit-") as root,
        ThreadPoolExecutor(max(processes, 2)) as pool,
    ):
        compiled = Path(root, "metrics.json")
        compiled.write_text(compiled_text(file))
        tasks = [
            pool.submit(watch, command, compiled, Path(root, f"{n}-{g}"), values, n)
            for n in range(devices) for g, values in enumerate(groups)
        ]  # fmt: skip
        try:
            seen = [task.result() for task in tasks]
        finally:
            pool.shutdown(cancel_futures=True)  # an error drops pending tasks
    yield from _of_requests(file, seen, own=command.endswith(OWN_MODULE))
    yield from _of_withdrawals(seen)
    yield from _of_files(seen, groups)


def _of_requests(file: MetricsFile, devices: list[AppDevice], *, own: bool) -> Iterator[Check]:
    n, every = len(devices), [request for device in devices for request in device.requests]
    checks = list(request_checks([[device.requests] for device in devices], PART, PAD_TO))
    yield from checks
    strange = [item.line for item in every if not item.line.startswith("POST /v1/reports ")]
    yield _exact("the collector sees requests with reports, and nothing else", strange, n)
    if own:
        documented = sorted([*HEADERS, "Host", "Content-Length"])
        odd = [
            f"{item.headers}" for item in every
            if sorted(name for name, _ in item.headers) != documented
            or not HEADERS.items() <= dict(item.headers).items()
        ]  # fmt: skip
        yield _exact("requests have the headers of docs/client.md, and no others", odd, len(every))
    else:
        kinds = {tuple(name for name, _ in item.headers) for item in every}
        wrong = [f"{len(kinds)} kinds of headers"] if len(kinds) > 1 else []
        yield _exact("requests of all devices have the same headers, in one order", wrong, n)
    early = [f"{device.early} requests" for device in devices if device.early]
    yield _exact("nothing is sent before its random time", early, n)
    again = [
        "another request in its place"
        for device in devices
        if Counter(item.body for item in device.refused)
        - Counter(request.body for request in device.requests)
    ]
    tries = sum(len(device.refused) for device in devices)
    yield _exact("a failed request is sent again, once, unchanged", again, tries)
    if any(check.broken(1e-9) for check in checks):
        return  # some bodies cannot be read
    reports = [
        Counter(
            group.metric
            for request in device.requests
            for group in batch_of(request.body).groups
            for _ in group.rows
        )
        for device in devices
    ]  # fmt: skip
    wanted = {
        m.name: min(2 * OFTEN, m.max_reports_per_period, m.max_reports or 2 * OFTEN)
        for m in file.metrics.values()
    }
    wrong = [f"{dict(report)} in place of {wanted}" for report in reports if report != wanted]
    yield _exact(
        f"a value recorded {2 * OFTEN} times at once yields as many reports as its period has",
        wrong, n,
    )  # fmt: skip


def _of_withdrawals(devices: list[AppDevice]) -> Iterator[Check]:
    hung = [device for device in devices if device.hung]
    late = [f"{device.late} requests" for device in hung if device.late]
    yield _exact(
        "nothing is sent between a withdrawal and a new consent, even while a request hangs",
        late, len(hung),
    )  # fmt: skip
    before = [_runs(device.held) for device in devices]
    shared = Counter(run for runs in before for run in runs)
    findings = []
    for device, runs in zip(devices, before, strict=True):
        rest = [run for run in runs & _runs(device.wiped) if shared[run] == 1]
        if len(rest) >= MIN_RUNS:
            findings.append(f"{len(rest)} runs of {RUN} bytes, such as {min(rest)!r}")
    yield _exact(
        "a withdrawal wipes the secret of a device: none of its bytes remain in the files",
        findings, len(devices),
    )  # fmt: skip


def _runs(data: bytes) -> set[bytes]:
    """Return the byte sequences that may be random: few repeated bytes, no text, no zeros."""
    runs = {data[start : start + RUN] for start in range(len(data) - RUN + 1)}
    return {
        run for run in runs
        if len(set(run)) > RUN - 3 and run.count(0) < 2
        and sum(32 <= byte < 127 for byte in run) < RUN - 4
    }  # fmt: skip


def _of_files(devices: list[AppDevice], groups: list[dict[str, Value]]) -> Iterator[Check]:
    for when in ("while the app runs", "after it"):
        raw = []
        for number, device in enumerate(devices):
            looked = device.running if when == "while the app runs" else [device.closed]
            for value in groups[number % 2].values():
                text = value.encode() if isinstance(value, str) else b""
                if len(text) >= SHORTEST and any(text in data for data in looked):
                    raw.append(repr(value))
        yield _exact(f"the files contain no value, {when}", raw, len(devices))
    files = {
        "while the app runs": [device.running[0] for device in devices],
        "after it": [device.closed for device in devices],
    }
    for when, some in files.items():
        yield from _alike(some[::2], some[1::2], when)


def _exact(what: str, wrong: list[str], number: int) -> Check:
    finding = f"{wrong[0][:200]} ({len(wrong):,} times)" if wrong else ""
    return exact("", what, PART, finding, one_of(number, "devices"))


def _alike(first: Sequence[bytes], second: Sequence[bytes], when: str) -> Iterator[Check]:
    for length in LENGTHS:
        p_value, text = most_distinct(first, second, length)
        yield test(
            "", f"no {length} bytes of the files reveal values or places of past periods, "
                f"{when}", PART, p_value, text,
            one_of(len(first) + len(second), "devices' files, in which every value is held"),
        )  # fmt: skip


def most_distinct(left: Sequence[bytes], right: Sequence[bytes], length: int) -> tuple[float, str]:
    """Return the p-value of the byte sequence that best separates two groups, and a description.

    The number of files with the sequence is hypergeometric. The p-value is corrected for all
    sequences that are in as many files.
    """
    runs = [_numbered_runs(data, length) for data in (*left, *right)]
    values, first = np.unique(np.concatenate(runs), return_inverse=True)
    ends = np.cumsum([0, *(len(run) for run in runs)])
    half = len(left)
    a = np.bincount(first[: ends[half]], minlength=len(values))
    b = np.bincount(first[ends[half] :], minlength=len(values))
    gaps = np.abs(a - b)
    worst = int(np.argmax(gaps))
    tests = int((((a + b) >= gaps[worst]) & (a + b < len(runs))).sum())
    most, least = sorted((int(a[worst]), int(b[worst])), reverse=True)
    uneven = float(stats.hypergeom.sf(most - 1, len(runs), half, most + least))
    text = int(values[worst]).to_bytes(8, "big")[8 - length :]
    where = f"{a[worst]} and {b[worst]} of {half} and {len(right)} devices"
    return min(1.0, 2 * max(tests, 1) * uneven), f"{text!r} is in the files of {where}"


def _numbered_runs(data: bytes, length: int) -> NDArray[np.int64]:
    raw = np.frombuffer(data, dtype=np.uint8).astype(np.int64)
    numbers = np.zeros(len(raw) - length + 1, dtype=np.int64)
    for place in range(length):
        numbers = numbers * 256 + raw[place : len(raw) - length + 1 + place]
    return np.unique(numbers)
