"""`rappor decoder` on a database, also of version 0.3.0, and what is kept for how long."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import func, select, text, true

from decoder_service.alarms.rules import Rules, load_alarms
from decoder_service.people.access import COMMAND_LINE
from decoder_service.people.permissions import Role
from decoder_service.results.rules import save_result
from decoder_service.schedules.page import _choices
from decoder_service.schedules.rules import load_schedules, shown_schedule
from decoder_service.schedules.windows import spec_of_schedule
from decoder_service.shell.database import ServiceDatabase, utc_now
from decoder_service.shell.models import Base, ResultRow
from decoder_service.shell.service import make_service
from decoder_service.shell.settings import ServiceSettings, load_settings
from decoder_service.shell.web import Posted
from rappor_cli.main import main
from rappor_server.database import alone_on_sqlite, make_engine
from rappor_server.errors import SchemaError
from rappor_server.schema import migrate, prepare
from tests.decoder_service.support import ROOT, result_row, running
from tests.decoder_service.test_database import fill, row


def test_keys_are_made_listed_and_revoked(tmp_path, capsys) -> None:
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
    assert f"{str(mistyped)!r}: there is no such file; check the path, or create it with" in said
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
    with pytest.raises(Exception, match="the session has ended"):
        service.access.person_of_session(token)
    service.close()


HERE = Path(__file__).parent
OLD = (HERE / "version_0_3_0.sql").read_text()  # turns a database of today into one of 0.3.0
SPEC = json.loads((HERE / "version_0_3_0.json").read_text())  # of a schedule, as it was stored


@pytest.mark.usefixtures("databases_as_served")
def test_a_database_of_the_first_version_is_migrated(database_url: str) -> None:
    service = make_service(ServiceSettings(database=database_url))
    prepare(service.database)
    key = service.access.create_key(COMMAND_LINE, "ann", Role.ANALYST).text
    person = service.access.person_of_key(key).id
    values = {
        "person": person,
        "spec": json.dumps(SPEC),
        "yes": True,
        "no": False,
        "content": b"x",
        "rules": json.dumps({"refused": 0.1, "cohort": True}),
    }
    with service.database.writing() as db:
        for statement in filter(str.strip, OLD.split(";")):
            db.execute(text(statement), values)
    service.close()
    database = ServiceDatabase(make_engine(database_url))
    with pytest.raises(SchemaError, match=r"at schema 0013_daily_series.*rappor migrate"):
        prepare(database)
    assert migrate(database) == ("0013_daily_series", "0014_kinds")
    prepare(database)
    with database.reading() as db:
        context = MigrationContext.configure(db.connection(), opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
        schedule, *defaults = sorted(load_schedules(db, true()), key=lambda one: one.name)
        listed = [spec_of_schedule(one).candidates.list for one in defaults]
        assert [(one.name, one.enabled) for one in defaults] == [
            ("page by day", True), ("theme by day", False)
        ]  # fmt: skip
        assert listed == ["a" * 16, None]
        assert {spec_of_schedule(one).operation for one in defaults} == {"series"}
        spec = spec_of_schedule(schedule)
        assert (spec.operation, spec.options.correction, spec.candidates.version) == (
            "decode", "bonferroni", 2
        )  # fmt: skip
        shown = [shown_schedule(one)["options"]["correction"] for one in (schedule, *defaults)]
        assert shown == ["bonferroni", "fdr", "fdr"]
        edited = [_choices(Posted({}, {}), one)["options"] for one in (schedule, *defaults)]
        assert [options["correction"] for options in edited] == shown
        (alarm,) = load_alarms(db, ["s"])
        assert (alarm.name, alarm.target) == ("ops", "https://hook.example/")
        assert Rules.model_validate_json(alarm.rules).cohort
        assert db.scalars(text("SELECT id FROM alarm_events")).all() == ["e"]
        for table in ("results", "result_files", "jobs", "schedule_windows"):
            assert db.execute(text(f"SELECT count(*) FROM {table}")).scalar() == 0
    database.close()
    again = make_service(ServiceSettings(database=database_url))
    assert again.alarms.send_due() == (0, 0)
    assert again.access.person_of_key(key).name == "ann"
    again.close()


def test_nothing_is_imported_from_the_folder_of_the_start(tmp_path: Path) -> None:
    """A user may have files of any name there; those of ours and of Python are meant."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("json", "pickle", "decoder_service", "random"):
        (folder / f"{name}.py").write_text("raise SystemExit('imported from the folder')")
    program = (
        "import os, sys; sys.path[:] = [one for one in sys.path if one]\n"
        "from decoder_service.worker.process_limits import SMALL_BYTES, Reader\n"
        "from tests.decoder_service.reading_functions import process_of\n"
        "os.chdir(sys.argv[1])\n"
        "assert Reader().read(process_of, b'a' * (SMALL_BYTES + 1)) != os.getpid()\n"
    )
    command = [sys.executable, "-c", program, str(folder)]
    subprocess.run(command, check=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})
