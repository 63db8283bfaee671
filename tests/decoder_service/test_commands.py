"""`rappor decoder` on a database, and what is kept for how long."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select

from decoder_service.people.access import COMMAND_LINE
from decoder_service.people.permissions import Role
from decoder_service.results.rules import save_result
from decoder_service.shell.database import ServiceDatabase, utc_now
from decoder_service.shell.models import ResultRow
from decoder_service.shell.service import make_service
from decoder_service.shell.settings import ServiceSettings, load_settings
from rappor_cli.main import main
from rappor_server.database import alone_on_sqlite
from rappor_server.schema import prepare
from tests.decoder_service.support import result_row, running
from tests.decoder_service.test_database import fill, row


def test_keys_are_made_listed_and_revoked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/d.sqlite"
    assert main(["decoder", "keys", "list", "--database", url]) == 1  # no such file is made
    made = ["decoder", "keys", "create", "--role", "analyst", "--name", "bob", "--database", url]
    capsys.readouterr()
    assert main(made) == 0
    key = capsys.readouterr().out.strip()
    service = make_service(load_settings(database=url))
    assert service.access.person_of_key(key).name == "bob"
    assert main(["decoder", "keys", "list", "--json", "--database", url]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(one["name"], one["role"], one["revoked"]) for one in listed] == [
        ("bob", "analyst", None)
    ]
    assert main(["decoder", "keys", "revoke", listed[0]["key_id"], "--database", url]) == 0
    assert main(["migrate", "--database", url]) == 0
    assert "already" in capsys.readouterr().out
    service.close()
    assert key.encode() not in (tmp_path / "d.sqlite").read_bytes()


def test_a_worker_makes_no_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path that was mistyped: before, the worker waited for jobs in a new, empty file."""
    mistyped = tmp_path / "typo.sqlite"
    assert main(["decoder", "worker", "--database", f"sqlite:///{mistyped}"]) == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert f"{str(mistyped)!r}: there is no such file; check the path, or make it with" in said
    assert not mistyped.exists()


def test_sqlite_takes_one_worker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/d.sqlite"
    with running(url, tick_seconds=0), alone_on_sqlite(url, "worker"):
        assert main(["decoder", "worker", "--database", url]) == 1
        (said,) = capsys.readouterr().err.splitlines()
        assert "another worker runs on" in said
        assert "PostgreSQL" in said
        assert main(["decoder", "serve", "--database", url, "--port", "0"]) == 1
        assert capsys.readouterr().err.splitlines()[-1] == said


def test_results_are_kept_as_long_as_is_said(database: ServiceDatabase) -> None:
    settings = ServiceSettings(database="sqlite:///x", keep_results_days=10)
    now = utc_now().timestamp()
    ages = {"old": 11.0, "released": 11.0, "new": 9.0}
    with database.writing() as db:
        for name, days in ages.items():
            created = now - days * 86_400
            made = result_row(name, released=name == "released", created=created)
            save_result(db, made, {"results.csv": b""})
    fill(database, [row(1, "a", state="done", ended=now, result_id="old")])
    base = make_service(settings)
    replace(base, database=database).run_maintenance()
    with database.reading() as db:
        found = {one for (one,) in db.execute(select(ResultRow.id))}
        count = db.execute(select(func.count()).select_from(ResultRow)).scalar_one()
    assert (found, count) == ({"released", "new"}, 2)
    base.close()


def test_an_expired_session_is_over(settings: ServiceSettings) -> None:
    at = [utc_now()]
    service = make_service(settings, clock=lambda: at[0])
    prepare(service.database)
    key = service.access.create_key(COMMAND_LINE, "ann", Role.VIEWER).text
    token = service.access.sign_in(key)
    assert service.access.person_of_session(token).name == "ann"
    at[0] += timedelta(seconds=settings.session_seconds)
    with pytest.raises(Exception, match="the session is over"):
        service.access.person_of_session(token)
    service.close()
