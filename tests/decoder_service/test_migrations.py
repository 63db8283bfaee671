"""A database of version 0.3.0 is brought to this version; what people made by hand stays."""

import json

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

SPEC = {
    "kind": "decode", "source": {"collector": {"metric": "page", "first": None, "last": None},
                                 "aggregates": [], "files": []},
    "before": None, "candidates": {"list": "a" * 16, "version": 2, "numbers": None, "dates": None},
    "weights": None, "options": {"correction": "bonferroni", "alpha": 0.01},
    "map": {"method": "field", "level": 0.95, "alpha": 0.05, "repeats": None, "slots": [],
            "split": "whole"},
    "each": "day", "find": {"alpha": 0.05, "level": 0.95, "crowd": 1000, "repeats": None},
    "known": None, "flows": {"min_km": 0.0, "top": 200}, "areas": None,
}  # fmt: skip
OLD = (
    "ALTER TABLE jobs RENAME COLUMN operation TO kind",
    "ALTER TABLE jobs ADD COLUMN checks VARCHAR(16) REFERENCES results (id)",
    "ALTER TABLE jobs ADD COLUMN check_key VARCHAR(16) NOT NULL DEFAULT ''",
    "ALTER TABLE jobs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0",
    "DROP INDEX jobs_live",
    "CREATE UNIQUE INDEX jobs_live ON jobs (owner, spec_digest, check_key)"
    " WHERE state IN ('queued', 'running', 'cancelling')",
    "ALTER TABLE aggregates ADD COLUMN num_cohorts INTEGER",
    "ALTER TABLE aggregates ADD COLUMN own_values BOOLEAN",
    "ALTER TABLE schedules ADD COLUMN family VARCHAR(16) NOT NULL DEFAULT 'window'",
    "ALTER TABLE schedules DROP COLUMN problem",
    "ALTER TABLE results DROP COLUMN operation",
    "ALTER TABLE alarms ADD COLUMN channel VARCHAR(16) NOT NULL DEFAULT 'webhook'",
    "ALTER TABLE alarms ADD COLUMN secret VARCHAR(64) NOT NULL DEFAULT ''",
    "UPDATE alembic_version SET version_num = '0013_daily_series'",
    "INSERT INTO results (id, key, input_digest, kind, metric, params_id, version, manifest,"
    " summary, released, created) VALUES ('r', 'k', 'd', 'decode', 'page', 'p', '0.3.0', '{}',"
    " '{}', :no, 1)",
    "INSERT INTO result_files VALUES ('r', 'results.json', 's', 1, :content)",
    "INSERT INTO schedules (id, name, owner, metric, every, spec, enabled, created) VALUES"
    " ('s', 'daily', :person, 'page', 'day', :spec, :yes, 1)",
    "INSERT INTO alarms (id, schedule_id, name, target, rules, show_values, created)"
    " VALUES ('a', 's', 'ops', 'https://hook.example/', :rules, :no, 1)",
    "CREATE TABLE readings (day VARCHAR(10) PRIMARY KEY)",
    "CREATE TABLE schedule_statuses (schedule_id VARCHAR(16) PRIMARY KEY)",
    "INSERT INTO alarm_events (id, alarm_id, cause, body, state, due, created, tries, reason)"
    " VALUES ('e', 'a', 'failed:p', '{}', 'sent', 1, 1, 1, ''),"
    " ('f', 'a', 'refused:2026-11-02', '{}', 'waiting', 1, 1, 0, '')",  # without a window
    "INSERT INTO aggregates (sha256, metric, params_id, num_reports, content, created)"
    " VALUES ('g', 'page', 'p', 9, :content, 1)",
    "INSERT INTO aggregate_readers VALUES ('g', :person)",
    "INSERT INTO schedule_windows VALUES"
    " ('s', 'd', 'p', '2026-11-02', '2026-11-02', 9, 'done', 1, NULL, 'r')",
    "CREATE TABLE daily_series (metric VARCHAR(256) PRIMARY KEY, enabled BOOLEAN NOT NULL,"
    " list_id VARCHAR(16), asked VARCHAR(64) NOT NULL, job_id VARCHAR(16), result_id VARCHAR(16),"
    " problem TEXT NOT NULL)",
    "INSERT INTO daily_series VALUES ('page', :yes, 'aaaaaaaaaaaaaaaa', 'asked', NULL, 'r', '')",
    "INSERT INTO daily_series VALUES ('theme', :no, NULL, 'asked', NULL, 'r', '')",
)


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
        for statement in OLD:
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
