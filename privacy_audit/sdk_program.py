"""This SDK as a program under audit: `python -m privacy_audit.sdk_program`.

It implements both protocols of docs/porting.md, section 12: the protocol of an encoder with a
ledger in memory, and the protocol of an app with files and requests.
"""

import base64
import json
import os
import sys
import traceback
from datetime import date
from pathlib import Path
from typing import Any

from client_sdk import Client
from client_sdk.randomization.metric_encoder import Encoder
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.sqlite import MemoryState
from rappor_core.calendar import SECONDS_A_DAY, date_of, day_of
from rappor_core.metrics.compiled import read_compiled
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.wire.binary import encode_binary
from rappor_core.wire.report import Report, make_batch

MAX_CHARS = 300  # the maximum length of a message
Command = dict[str, Any]


class Devices:
    """Devices in memory, each identified by its secret and reopened for each command."""

    def __init__(self, document: Any) -> None:
        self._file: MetricsFile = read_compiled(json.dumps(document))
        self._states: dict[str, MemoryState] = {}

    def encode(self, command: Command) -> Command:
        """Return cohort, bits and permanent response of a value, and fresh reports of it."""
        device = Encoder(self._file.metrics, bytes.fromhex(command["secret"])).metric(
            command["metric"]
        )
        bits, width = device.value_bits(command["value"]), device.metric.params.report_bytes
        return {
            "cohort": device.cohort,
            "bloom_bits": bits.to_bytes(width, "little").hex(),
            "permanent_bits": device.permanent_bits(bits).to_bytes(width, "little").hex(),
            "report_bits": [device.report_bits(bits).hex() for _ in range(command.get("count", 1))],
        }

    def record(self, command: Command) -> Command:
        """Record a value at some hour of a day; return the report, or null."""
        secret, name = command["secret"], command["metric"]
        if secret not in self._states:
            self._states[secret] = MemoryState(bytes.fromhex(secret))
        state = self._states[secret]
        recorder = Recorder(
            self._file.metrics, state, budget=self._file.budget,
            platform=self._file.parts(name)[0].platforms[0],
        )  # fmt: skip
        day = day_of(date.fromisoformat(command["day"]))
        hour = (day * 2_654_435_761 >> 16) % 24
        recorder.record(name, command["value"], day * SECONDS_A_DAY + 3600.0 * hour)
        queued = [
            r._asdict() | {"day": day_of(r.day), "bits": base64.b64encode(r.bits).decode()}
            for r in state.take_reports()
        ]
        return {"report": queued[0] if queued else None}

    def batch(self, command: Command) -> Command:
        """Encode reports, in the form that `record` returned them, into the bytes of a batch."""
        reports = [
            Report(
                **report | {"day": date_of(report["day"]), "bits": base64.b64decode(report["bits"])}
            )
            for report in command["reports"]
        ]
        batch = make_batch(bytes.fromhex(command["batch_id"]), reports)
        return {"binary": encode_binary(batch).hex()}


class App:
    """An app that contains one client."""

    def __init__(self, command: Command) -> None:
        self._client = Client.open(
            command["metrics"], state_dir=command["state_dir"], collector=command["collector"],
            consent=True,
        )  # fmt: skip

    def record(self, command: Command) -> Command:
        """Record a value now."""
        return {"recorded": self._client.record(command["metric"], command["value"])}

    def flush(self, command: Command) -> Command:
        """Send the queue, for at most some seconds."""
        return {"sent": self._client.flush(command["seconds"])}

    def withdraw(self, _: Command) -> Command:
        """Withdraw consent."""
        return {"wiped": self._client.set_consent(False)}

    def close(self, _: Command) -> Command:
        """Close the client."""
        self._client.close()
        return {}


def main() -> None:
    """Answer commands until standard input ends; the first command chooses the protocol.

    A client error is answered as a refusal with the location of the call.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the client's own output must not mix with answers
    subject: Devices | App | None = None
    for line in sys.stdin:
        command = json.loads(line)
        answer: Command = {"ok": True}
        try:
            if command["do"] == "metrics":
                subject = Devices(command["document"])
            elif command["do"] == "open":
                subject = App(command)
            else:
                answer |= getattr(subject, command["do"])(command)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            message = f"{error} ({Path(where.filename).name}, line {where.lineno})"
            answer = {"ok": False, "error": type(error).__name__, "message": message[:MAX_CHARS]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
