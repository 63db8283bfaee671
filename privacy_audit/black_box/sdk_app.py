"""This SDK in an app, as a program that an audit runs: `python -m privacy_audit.black_box.sdk_app`.

One JSON object a line on standard input, one a line on standard output (docs/porting.md, part 12).
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from client_sdk import Client


def main() -> None:
    """Answer commands until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a client prints is not an answer
    client: Client | None = None
    for line in sys.stdin:
        command: dict[str, Any] = json.loads(line)
        answer: dict[str, Any] = {"ok": True}
        match command["do"]:
            case "open":
                client = Client.open(
                    command["metrics"],
                    state_dir=command["state_dir"],
                    collector=command["collector"],
                    consent=True,
                )
            case "record" if client:
                answer["recorded"] = client.record(command["metric"], command["value"])
            case "flush" if client:
                answer["sent"] = client.flush(command["seconds"])
            case "withdraw" if client:
                answer["wiped"] = client.set_consent(False)
            case "close" if client:
                client.close()
            case _:
                answer = {"ok": False, "error": "unknown", "message": "unknown command"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
