"""Keys and scopes, metrics that change, and the audit log."""

import json
import socket
import time
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection

from collector.domain import operations
from collector.domain.access import MAX_AGE, MAX_AGE_OF_UNKNOWN, Scope
from collector.errors import MetricChangeError
from collector.server import running_collector
from collector.settings import load_settings
from rappor_server.errors import SettingsError
from tests.collector.support import (
    BOTH_DATABASES,
    TODAY,
    Bench,
    Seconds,
    Server,
    ServerMaker,
    make_bench,
    make_metric,
)

METRIC = make_metric(min_reports=1)


def keys_for(server: Server, seconds: Seconds) -> dict[str, dict[str, str]]:
    """A header with a key of each scope, made on the database itself."""
    bench = make_bench(server.settings.database, server.clock)
    headers = {}
    for scope in Scope:
        text = bench.collector.create_key(scope, f"for {scope.value}", "test").text
        headers[scope.value] = {"authorization": f"Bearer {text}"}
    bench.database.close()
    seconds.passed += MAX_AGE_OF_UNKNOWN
    return headers


@pytest.fixture
def locked(serving: ServerMaker, seconds: Seconds):  # type: ignore[no-untyped-def]
    with serving([METRIC], require_keys=True, protect_metrics=True) as server:
        yield server


WHO_MAY = [
    ("POST", "/v1/reports", {"report"}),
    ("GET", "/v1/metrics", {"aggregate", "admin"}),
    ("GET", "/v1/metrics/homepage/aggregate", {"aggregate"}),
    ("GET", "/v1/metrics/homepage/reports", {"admin"}),
    ("POST", "/v1/metrics", {"admin"}),
    ("POST", "/v1/metrics/homepage/retire", {"admin"}),
    ("POST", f"/v1/days/{TODAY}/close", {"admin"}),
    ("GET", "/v1/keys", {"admin"}),
    ("POST", "/v1/keys", {"admin"}),
    ("POST", "/v1/keys/0123456789abcdef/revoke", {"admin"}),
    ("GET", "/v1/audit", {"admin"}),
    ("GET", "/metrics", {"admin"}),
    ("GET", "/healthz", {"report", "aggregate", "admin", "nobody"}),
    ("GET", "/readyz", {"report", "aggregate", "admin", "nobody"}),
]


def test_each_route_takes_its_scopes_and_no_other(locked: Server, seconds: Seconds) -> None:
    headers = keys_for(locked, seconds) | {"nobody": {}}
    for method, path, may in WHO_MAY:
        for scope, header in headers.items():
            answer = locked.http.request(method, path, headers=header)
            refused = answer.status_code in (401, 403)
            assert refused == (scope not in may), (method, path, scope, answer.text)
            if refused:
                assert answer.status_code == (401 if scope == "nobody" else 403)


NO_KEYS = ["", "Bearer", "Bearer x", "Basic abc", "Bearer " + "a" * 9000, "bearer \xff"]


def test_a_key_that_is_not_one_is_refused(locked: Server, seconds: Seconds) -> None:
    key = keys_for(locked, seconds)["admin"]["authorization"]
    wrong_secret = key[:-1] + ("A" if key[-1] != "A" else "B")
    for header in (*NO_KEYS, "Bearer rk_admin_", wrong_secret):
        headers = {"authorization": header.encode("latin-1")}
        answer = locked.http.get("/v1/keys", headers=headers)  # type: ignore[arg-type]
        assert answer.status_code == 401, header
        assert answer.headers["www-authenticate"] == "Bearer"


def test_new_keys_work_and_revoked_ones_stop(locked: Server, seconds: Seconds) -> None:
    admin = keys_for(locked, seconds)["admin"]
    made = locked.http.post("/v1/keys", headers=admin, json={"scope": "report", "label": "app 1.0"})
    assert made.status_code == 201
    report_key = {"authorization": f"Bearer {made.json()['key']}"}
    key_id = made.json()["key_id"]

    def send() -> httpx.Response:
        body = locked.sender.body(locked.sender.reports(METRIC, 1))
        return locked.post_body(body, **report_key)

    seconds.passed += MAX_AGE_OF_UNKNOWN
    assert send().status_code == 200
    assert locked.http.post(f"/v1/keys/{key_id}/revoke", headers=admin).status_code == 200
    seconds.passed += MAX_AGE
    assert send().status_code == 401
    again = locked.http.post(f"/v1/keys/{key_id}/revoke", headers=admin)
    assert again.status_code == 404
    listed = {
        key["key_id"]: key for key in locked.http.get("/v1/keys", headers=admin).json()["keys"]
    }
    assert listed[key_id]["revoked"] == str(TODAY)
    assert "secret" not in json.dumps(listed)


@BOTH_DATABASES
def test_versions_live_side_by_side(bench: Bench) -> None:
    old, new = METRIC, make_metric(min_reports=1, num_cohorts=2)
    bench.collector.push_metrics([old], "test")
    bench.collector.push_metrics([new], "test")
    bench.send(bench.sender.reports(old, 5))
    bench.send(bench.sender.reports(new, 7))
    bench.collector.close_day(TODAY, "test")
    assert bench.collector.read_aggregate("test", "homepage").num_reports == 7
    older = bench.collector.read_aggregate("test", "homepage", params_id=old.params_id)
    assert older.num_reports == 5
    states = [(m["params_id"], m["state"]) for m in bench.collector.list_metrics()]
    assert states == [(old.params_id, "older"), (new.params_id, "current")]


def test_a_lower_cohort_floor_must_be_asked_for(bench: Bench) -> None:
    """Given or by default: without the key it is 100, or min_reports if that is less."""
    bench.collector.push_metrics([make_metric(min_reports=50, min_reports_per_cohort=None)], "test")
    for weaker in (
        make_metric(min_reports=50, min_reports_per_cohort=49),
        make_metric(min_reports=60, min_reports_per_cohort=30),
    ):
        with pytest.raises(MetricChangeError, match="min_reports_per_cohort falls from 50 to"):
            bench.collector.push_metrics([weaker], "test")
    bench.collector.push_metrics([weaker], "test", weaken=True)


def test_a_private_token_is_no_key_yet(serving: ServerMaker) -> None:
    """Its place is reserved in docs/protocol.md; until it is built it opens nothing."""
    with serving([METRIC], require_keys=True) as server:
        body = server.sender.body(server.sender.reports(METRIC, 1))
        answer = server.post_body(body, authorization="PrivateToken token=AAAA")
        assert answer.status_code == 401


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"min_reports": 1}, "min_reports"),
        ({"prob_f": 0.25}, "epsilon"),
        ({"max_memoized_values": 4}, "max_memoized_values"),
        ({"num_cohorts": 8}, "num_cohorts"),
        ({"keep_raw_days": 1}, "keep_raw_days"),
        ({"max_reports_per_period": 2}, "reports a day"),
    ],
)
def test_what_weakens_privacy_must_be_asked_for(bench, change, word) -> None:
    bench.collector.push_metrics([make_metric()], "test")
    weaker = make_metric(**change)
    with pytest.raises(MetricChangeError, match=word):
        bench.collector.push_metrics([weaker], "test")
    assert len(bench.collector.list_metrics()) == 1
    bench.collector.push_metrics([weaker], "key-1", weaken=True)
    latest = bench.collector.read_audit(1)[0]
    assert (latest.actor, latest.act) == ("key-1", "push")
    assert word in latest.detail


def test_every_act_and_read_is_audited(bench: Bench) -> None:
    collector = bench.collector
    collector.push_metrics([METRIC], "a")
    key = collector.create_key(Scope.REPORT, "app", "a")
    with pytest.raises(Exception, match="no closed day"):
        collector.read_aggregate("b", "homepage")
    bench.send(bench.sender.reports(METRIC, 3))
    collector.close_day(TODAY, "a")
    collector.read_aggregate("b", "homepage", first=TODAY, last=TODAY)
    collector.retire_metric("homepage", "a")
    collector.revoke_key(key.key_id, "a")
    acts = [(row.actor, row.act) for row in reversed(collector.read_audit(100))]
    assert acts == [
        ("a", "push"),
        ("a", "create-key"),
        ("b", "aggregate"),
        ("a", "close"),
        ("b", "aggregate"),
        ("a", "retire"),
        ("a", "revoke-key"),
    ]
    details = [json.loads(row.detail) for row in reversed(collector.read_audit(100))]
    assert details[2]["refused"] == "no_closed_days"
    assert (details[4]["from"], details[4]["reports"]) == (str(TODAY), 3)
    assert key.text not in str(details)


@pytest.mark.parametrize(
    "chosen",
    [
        {"require_keys": False, "host": "0.0.0.0"},
        {"database": "sqlite://"},
        {"database": "sqlite:////nowhere/at/all/x.sqlite"},
        {"database": "mysql://x/y"},
        {"workers": 2},
        {"nonsense": 1},
        {"log_level": "loud"},
    ],
)
def test_wrong_settings_are_refused_in_one_line(chosen: dict[str, object]) -> None:
    from collector.app import create_app

    with pytest.raises(SettingsError) as caught:
        create_app(load_settings(**chosen))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["RAPPOR_KEYS", "RAPPOR_SETTINGS_FILE", "RAPPOR_DATABSE"])
def test_variables_that_are_no_settings_are_refused(name, monkeypatch) -> None:
    for read_elsewhere in ("RAPPOR_KEY", "RAPPOR_DECODER_KEY", "RAPPOR_TEST_REQUESTS"):
        monkeypatch.setenv(read_elsewhere, "9")
    load_settings()
    monkeypatch.setenv(name, "x")
    with pytest.raises(SettingsError, match=f"{name}: there is no such setting"):
        load_settings()


def test_an_inherited_socket_beyond_loopback_needs_keys(sqlite_url: str) -> None:
    """`host` says nothing of it: an open collector must look at the socket itself."""
    with socket.socket() as inherited:
        inherited.bind(("0.0.0.0", 0))
        settings = load_settings(
            database=sqlite_url, require_keys=False, listen_fd=inherited.fileno()
        )
        with (
            pytest.raises(SettingsError, match=r"require_keys = false on a socket .* '0.0.0.0'"),
            running_collector(settings),
        ):
            pass


def test_who_has_no_key_costs_the_database_nothing(serving, monkeypatch, seconds) -> None:
    """Keys are read afresh only for a key of the route's scope; a report key is in every app."""
    with serving([METRIC], require_keys=True) as server:
        headers = keys_for(server, seconds)
        assert server.http.get("/v1/audit", headers=headers["admin"]).status_code == 200
        reads: list[None] = []
        load = operations.load_keys

        def counted(connection: Connection) -> Any:
            reads.append(None)
            return load(connection)

        monkeypatch.setattr(operations, "load_keys", counted)
        started = time.monotonic()
        for given in ({}, {"authorization": "Bearer x"}, headers["report"]):
            for path in ("/v1/metrics", "/v1/metrics/homepage/aggregate", "/v1/audit"):
                for _ in range(10):
                    assert server.http.get(path, headers=given).status_code in (401, 403)
        assert len(reads) <= 2 + time.monotonic() - started  # 90 before


def test_a_weakening_let_elsewhere_is_not_let_here(bench: Bench) -> None:
    """A version pushed again is held against itself, too, not only against the current one."""
    first = make_metric(min_reports=50, min_reports_per_cohort=20)
    second = make_metric(min_reports=10, min_reports_per_cohort=5, keep_raw_days=3, num_bits=8)
    bench.collector.push_metrics([first], "test")
    bench.collector.push_metrics([second], "test", weaken=True)
    weaker = first.replace(min_reports=10, min_reports_per_cohort=5, keep_raw_days=3)
    with pytest.raises(MetricChangeError) as refused:
        bench.collector.push_metrics([weaker], "test")
    for name in ("min_reports", "min_reports_per_cohort", "keep_raw_days"):
        assert f"{name} " in str(refused.value)
    pushed = bench.collector.push_metrics([weaker], "test", weaken=True)
    assert len(pushed.weakened) == len(set(pushed.weakened)) >= 3


def reason_of(bench: Bench) -> str:
    result = bench.send(bench.sender.reports(METRIC, 1))[0].results[0]  # type: ignore[union-attr]
    return "" if result is None else result.reason


def test_a_paused_metric_is_refused_until_it_is_resumed(bench: Bench) -> None:
    bench.collector.push_metrics([METRIC], "test")
    assert reason_of(bench) == ""
    assert bench.collector.pause_metric("homepage", "test", paused=True) == [METRIC.params_id]
    assert reason_of(bench) == "metric_paused"
    bench.collector.push_metrics([METRIC], "test")  # as a start with --metrics does
    assert reason_of(bench) == "metric_paused"
    bench.collector.pause_metric("homepage", "test", paused=False)
    assert reason_of(bench) == ""
    bench.collector.close_day(TODAY, "test")
    assert bench.collector.read_aggregate("test", "homepage").num_reports == 2
    acts = [row.act for row in bench.collector.read_audit(100)]
    assert {"pause", "resume"} <= set(acts)
