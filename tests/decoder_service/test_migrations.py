"""A database of version 0.3.0 is brought to this version; what people made by hand stays."""

import json
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text, true

from decoder_service.alarms.rules import Rules, load_alarms
from decoder_service.people.access import COMMAND_LINE
from decoder_service.people.permissions import Role
from decoder_service.schedules.page import _choices
from decoder_service.schedules.rules import load_schedules, shown_schedule
from decoder_service.schedules.windows import spec_of_schedule
from decoder_service.shell.database import ServiceDatabase
from decoder_service.shell.models import Base
from decoder_service.shell.service import make_service
from decoder_service.shell.settings import ServiceSettings
from decoder_service.shell.web import Posted
from rappor_server.database import make_engine
from rappor_server.errors import SchemaError
from rappor_server.schema import migrate, prepare

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
