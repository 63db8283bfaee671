"""The budget that a device began with holds, whatever later versions of the app declare."""

import math
from typing import Any

import pytest

from client_sdk.client import Client
from client_sdk.errors import StateError
from client_sdk.recording.ledger import committed
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.sqlite import MemoryState
from rappor_core.errors import ParameterError
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metrics_file import MetricsFile
from tests.metric_texts import declaration

PAGE = {"num_bits": 64, "num_hashes": 2, "num_cohorts": 4, "max_memoized_values": 2}
PAGE |= {"prob_f": 0.75, "prob_p": 0.5, "prob_q": 0.75, "fallback": "other"}


def version(budget: float | None, metrics: int) -> MetricsFile:
    """An app's file: so many string metrics, each with room for one value and its fallback."""
    tables = "".join(declaration(f"m{number}", "string", **PAGE) for number in range(metrics))
    return parse_metrics(("" if budget is None else f"budget = {budget}\n") + tables)


def total(state: Any) -> float:
    return sum(committed(line, state.entries(line.name)) for line in state.lines())


def record_all(client: Client, metrics: MetricsFile) -> None:
    for name in metrics.metrics:
        client.record(name, "a")


def state_of(client: Client) -> Any:
    return client._life.session.state


@pytest.mark.parametrize("later", [None, 79.0], ids=["no budget", "a larger one"])
def test_an_update_cannot_raise_the_budget(open_client: Any, later: float | None) -> None:
    """The attack of issue 12: 9 nats at first; the next version spent 79."""
    first, second = version(9.0, 2), version(later, 19)
    with open_client(metrics=first) as client:
        record_all(client, first)
    with open_client(metrics=second) as client:
        record_all(client, second)
        assert total(state_of(client)) <= 9.0
        assert client.inspect()["device"]["budget"] == 9.0
        assert not client.record("m18", "a")
        assert "used up" in client.last_refusal


def test_neither_a_reset_nor_consent_given_again_raises_it(open_client: Any) -> None:
    open_client(metrics=version(9.0, 2)).close()
    with open_client(metrics=version(79.0, 19)) as client:
        client.reset()
        assert client.inspect()["device"]["budget"] == 9.0
        client.set_consent(False)
        client.set_consent(True)
        record_all(client, version(79.0, 19))
        assert total(state_of(client)) <= 9.0


def test_consent_to_the_new_number_raises_it(open_client: Any) -> None:
    first, second = version(9.0, 2), version(79.0, 19)
    with open_client(metrics=first) as client:
        record_all(client, first)
    with open_client(metrics=second) as client:
        assert not client.record("m18", "a")
        client.set_consent(True, budget=60.0)
        assert client.record("m18", "a")
        record_all(client, second)
        assert 50.0 < total(state_of(client)) <= 60.0
    with open_client(metrics=second) as client:
        assert client.inspect()["device"]["budget"] == 60.0


@pytest.mark.parametrize("budget", [0, -1.0, math.nan, "9", True, 80.0])
def test_a_number_that_was_not_declared_is_refused(open_client: Any, budget: object) -> None:
    with open_client(metrics=version(79.0, 19)) as client:
        with pytest.raises(ParameterError, match="budget = "):
            client.set_consent(True, budget=budget)  # type: ignore[arg-type]
        with pytest.raises(ParameterError, match="needs consent"):
            client.set_consent(False, budget=9.0)
        assert client.inspect()["device"]["budget"] == 79.0


def test_another_client_that_is_open_follows_at_once(open_client: Any) -> None:
    metrics = version(79.0, 19)
    with open_client(metrics=metrics) as one, open_client(metrics=version(9.0, 2)):
        record_all(one, metrics)
        assert total(state_of(one)) <= 9.0


def test_a_damaged_number_is_a_damaged_state() -> None:
    state = MemoryState(bytes(32))
    for value in ("9", -1, b""):
        state.put("budget", value)
        with pytest.raises(StateError) as refused:
            Recorder(version(9.0, 1).metrics, state, budget=9.0)
        assert refused.value.condition == "state_corrupt"
