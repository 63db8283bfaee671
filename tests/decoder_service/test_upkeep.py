"""What is measured, copied and deleted; CSV files that a spreadsheet may open."""

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from decoder_service.shell.database import utc_now
from decoder_service.shell.models import JobRow
from decoder_service.shell.service import make_service
from rappor_cli.main import main
from tests.decoder_service.in_process import do_jobs
from tests.decoder_service.support import STRINGS, Running, decode_spec, running, submit, upload


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


def test_a_copy_is_put_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url, copy = f"sqlite:///{tmp_path}/d.sqlite", tmp_path / "copy.sqlite"
    back = f"sqlite:///{tmp_path}/back.sqlite"
    with running(url, tick_seconds=0) as served, served.client("ana") as ana:
        job = submit(ana, decode_spec(ana))
        assert main(["backup", "-o", str(copy), "--database", url]) == 0
        assert main(["backup", "-o", str(copy), "--database", url]) == 1
    assert copy.stat().st_mode & 0o077 == 0
    assert main(["restore", str(copy), "--database", back]) == 0
    assert main(["restore", str(copy), "--database", back]) == 1
    with running(back, tick_seconds=0) as served, served.client("root") as root:
        assert root.get(f"/v1/jobs/{job}").json()["state"] == "queued"
    wrong = tmp_path / "wrong"
    wrong.write_bytes(b"no database")
    assert main(["restore", str(wrong), "--discard-open-days", "--database", f"{back}2"]) == 1
    assert "not" in capsys.readouterr().err
