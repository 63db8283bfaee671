"""Check what else a client does in addition to sending reports: other requests, other hosts, files,
output.

As the collector sees it, and as Python's audit events tell it (`environment.Acts`): what a library
written in C does by itself raises none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from privacy_audit.black_box.checks import Check, exact, one_of
from tests.client.whole.observables import Crowd, comparable
from tests.client.whole.witness import WitnessedDevice, WitnessedRequest

BOX: Final = "installations"


def conduct_checks(crowd: Crowd) -> Iterator[Check]:
    """Yield all checks of conduct, over all devices of a crowd."""
    devices = [device for one in crowd for device in one.devices]
    strange = [line for device in devices for line in device.strange]
    silent = sum(max(device.silent, 0) for device in devices)
    wrong = [f"{len(strange)} others: {strange[0][:80]}"] if strange else []
    wrong += [f"{silent} connections without a request"] if silent else []
    yield _of_all("the collector sees requests with reports, and nothing else", devices, wrong)
    yield _of_all(
        "nobody but the collector is spoken to, and no program is started", devices,
        [told for device in devices for told in device.spoken],
    )  # fmt: skip
    yield _of_all(
        "no file is written outside the folder of the state", devices,
        [told for device in devices for told in device.written],
    )  # fmt: skip
    yield _of_retries(devices)
    pairs = [
        pair
        for other in (crowd.others, crowd.changing)
        for pair in comparable(crowd.usual.devices, other.devices)
    ]
    differ = [set(a.said) ^ set(b.said) for a, b in pairs if a.said != b.said]
    yield exact(
        "", "values do not show in what is logged, at any level, or printed", BOX,
        f"{len(differ)} of {len(pairs)} pairs of lives differ in it, with the same randomness: "
        f"{min(differ[0], default='')[:120]!r}" if differ else "",
        one_of(len(pairs), "pairs of lives"),
    )  # fmt: skip


def _of_all(what: str, devices: list[WitnessedDevice], wrong: list[str]) -> Check:
    found = f"{wrong[0][:200]} ({len(wrong):,} times)" if wrong else ""
    return exact("", what, BOX, found, one_of(len(devices), "devices"))


def _of_retries(devices: list[WitnessedDevice]) -> Check:
    """What the collector did not take comes again as it was, once."""
    odd, number = list[WitnessedRequest](), 0
    for device in devices:
        answered = [_bytes(one) for some in device.requests for one in some]
        tries = [_bytes(one) for one in device.refused]
        number += len(tries)
        odd += [
            one for one in device.refused
            if answered.count(_bytes(one)) != 1 or tries.count(_bytes(one)) != 1
        ]  # fmt: skip
    return exact(
        "", "a request that failed is sent again, once, as it was", BOX,
        f"{len(odd)} of {number} were not" if odd else "",
        one_of(number, "requests that failed"),
    )  # fmt: skip


def _bytes(request: WitnessedRequest) -> WitnessedRequest:
    return request._replace(connection=0)
