"""The document in the repository is the one of the code; the tables are those of the models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from decoder_service.shell.app import create_app
from decoder_service.shell.database import ServiceDatabase
from decoder_service.shell.models import Base
from decoder_service.shell.settings import ServiceSettings

pytestmark = pytest.mark.usefixtures("databases_as_served")
WRITTEN = Path(__file__).parents[2] / "docs" / "openapi-decoder.json"


def test_the_written_document_matches_the_code(settings: ServiceSettings) -> None:
    made = json.loads(json.dumps(create_app(settings).openapi()))
    assert json.loads(WRITTEN.read_text()) == made, (
        "run: python -m decoder_service.shell.app > docs/openapi-decoder.json"
    )


def test_the_migrations_make_the_tables_of_the_models(database: ServiceDatabase) -> None:
    with database.reading() as db:
        context = MigrationContext.configure(db.connection(), opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
