"""What people may store of results, what is measured, and what is deleted when nobody needs it."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, text, update

from decoder_service.shell.database import utc_now
from decoder_service.shell.models import JobRow, ResultRow, result_files
from decoder_service.shell.service import make_service
from tests.decoder_service.in_process import do_jobs, done
from tests.decoder_service.support import (
    STRINGS,
    Running,
    await_state,
    decode_spec,
    running,
    submit,
    upload,
    workers,
)

MOST = 1 << 20  # the least that can be set


def full(served: Running, who: str, held: int = MOST) -> None:
    """Let the results of a person hold so much."""
    with served.service.database.writing() as db:
        db.execute(update(ResultRow).values(stored=held))


def stored_files(served: Running) -> int:
    with served.service.database.reading() as db:
        return int(db.execute(select(func.count()).select_from(result_files)).scalar_one())


def result_of(served: Running, client: Any, folder: Path) -> str:
    return done(served, client, folder, decode_spec(client))


def test_full_quotas_refuse_jobs_until_freed(database_url: str, tmp_path: Path) -> None:
    with (
        running(database_url, tick_seconds=0, max_result_bytes_of_person=MOST) as served,
        served.client("ana") as ana,
        served.client("root") as root,
    ):
        result = result_of(served, ana, tmp_path)
        usage = ana.get("/v1/usage").json()
        assert usage["result_bytes"]["most"] == MOST
        with served.service.database.reading() as db:
            counted = select(func.sum(func.length(result_files.c.content)))
            assert usage["result_bytes"]["held"] == db.execute(counted).scalar_one() > 0
        assert root.get("/v1/usage").json()["result_bytes"] == {"held": 0, "most": MOST}
        full(served, "ana")
        spec = decode_spec(ana, options={"alpha": 0.01})
        refused = ana.post("/v1/jobs", json=spec)
        assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (429, "quota")
        assert "1,048,576 bytes; a person may hold 1,048,576: remove" in refused.text
        assert root.post("/v1/jobs", json=decode_spec(root)).status_code == 202  # its own quota
        assert ana.delete(f"/v1/results/{result}").json() == {"given_up": result, "deleted": True}
        assert ana.get(f"/v1/results/{result}").status_code == 404
        assert ana.post("/v1/jobs", json=spec).status_code == 202
        acts = [one["act"] for one in root.get("/v1/audit").json()["entries"]]
        assert "give-up-result" in acts


def test_results_stay_while_anybody_holds_them(database_url: str, tmp_path: Path) -> None:
    with (
        running(database_url, tick_seconds=0) as served,
        served.client("ana") as ana,
        served.client("ben") as ben,
        served.client("root") as root,
    ):
        result = result_of(served, ana, tmp_path)
        assert ben.delete(f"/v1/results/{result}").status_code == 404
        assert result_of(served, ben, tmp_path) == result
        released = {"released": True}
        assert ana.post(f"/v1/results/{result}/release", json=released).status_code == 200
        reply = ben.delete(f"/v1/results/{result}")
        assert (reply.status_code, reply.json()["detail"]) == (
            422, "the result is released: hide it from viewers first",
        )  # fmt: skip
        ana.post(f"/v1/results/{result}/release", json={"released": False})
        assert ana.delete(f"/v1/results/{result}").json()["deleted"] is False
        assert ana.get(f"/v1/results/{result}").status_code == 404
        assert ana.get("/v1/usage").json()["result_bytes"]["held"] == 0
        assert ben.get(f"/v1/results/{result}").status_code == 200
        assert root.delete(f"/v1/results/{result}").json()["deleted"] is True
        assert stored_files(served) == 0


def test_unheld_results_are_deleted(database_url: str, tmp_path: Path) -> None:
    with running(database_url, tick_seconds=0) as served, served.client("ana") as ana:
        old = result_of(served, ana, tmp_path)
        assert served.service.delete_unneeded()[0] == 0
        assert [row["id"] for row in ana.get("/v1/results").json()["results"]] == [old]
        with served.service.database.writing() as db:
            db.execute(text("DELETE FROM result_readers"))
        assert served.service.delete_unneeded()[0] == 1
        assert stored_files(served) == 0


@pytest.mark.long
def test_too_large_results_end_their_job(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/d.sqlite"
    limits = {"MAX_RESULT_BYTES_OF_PERSON": MOST}
    with (
        running(url, tick_seconds=0, max_result_bytes_of_person=MOST) as served,
        served.client("ana") as ana,
    ):
        first = result_of(served, ana, tmp_path)
        full(served, "ana", MOST - 1)
        with workers(url, tmp_path, **limits):
            late = submit(ana, decode_spec(ana, options={"alpha": 0.01}))
            found = await_state(ana, late)
        assert (found["state"], found["result_id"]) == ("failed", None)
        assert "with this result yours would hold 1,0" in found["reason"]
        assert "DELETE /v1/results/ID" in found["reason"]
        assert [row["id"] for row in ana.get("/v1/results").json()["results"]] == [first]


def metric_lines(served: Running) -> dict[str, float]:
    with served.client(None) as client:
        text = client.get("/telemetry").text
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def test_metrics_count_and_name_nobody(database_url: str) -> None:
    with running(database_url, tick_seconds=0) as served, served.client("ana") as ana:
        submit(ana, decode_spec(ana))
        with served.service.database.writing() as db:
            db.execute(update(JobRow).values(created=JobRow.created - 100))
        found = metric_lines(served)
        assert found['rappor_decoder_jobs{state="queued"}'] == 1
        assert 99 < found["rappor_decoder_oldest_queued_seconds"] < 200
        assert found["rappor_decoder_workers"] == 0
        assert not any(word in str(found) for word in ("ana", "strings"))


def test_protected_metrics_are_for_admins(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/d.sqlite"
    with running(url, tick_seconds=0, protect_metrics=True) as served:
        for who, status in ((None, 401), ("ana", 403), ("root", 200)):
            with served.client(who) as client:
                assert client.get("/telemetry").status_code == status


def test_aggregates_that_nothing_needs_are_deleted(database_url: str, tmp_path: Path) -> None:
    with running(database_url, tick_seconds=0) as served, served.client("ana") as ana:
        service = served.service
        submit(ana, decode_spec(ana))
        other = upload(ana, STRINGS.replace(b'"metric":"strings"', b'"metric":"others"'))
        late = make_service(service.settings, clock=lambda: utc_now() + timedelta(days=31))
        assert service.delete_unneeded()[1] == 0  # too young
        assert late.delete_unneeded()[1] == 1  # the other is of a job that waits
        assert other not in ana.get("/v1/aggregates").text
        assert do_jobs(service, tmp_path) == 1
        assert late.delete_unneeded()[1] == 0  # now of a result
        late.close()
