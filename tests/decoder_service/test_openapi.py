"""The document in the repository is the one of the code; the tables are those of the models."""

import json
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from decoder_service.shell.app import create_app
from decoder_service.shell.database import ServiceDatabase
from decoder_service.shell.models import Base
from decoder_service.shell.settings import ServiceSettings
from tests.decoder_service.support import Running

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


def test_head_is_get_without_its_body(served: Running) -> None:
    """Monitors and load balancers send it (fastapi #1773)."""
    with served.client("root") as root, served.client(None) as nobody:
        for client in (root, nobody):
            for path in ("/healthz", "/openapi.json", "/v1/jobs", "/sign-in", "/jobs"):
                answer = client.head(path)
                assert (answer.status_code, answer.content) == (client.get(path).status_code, b"")
        assert root.head("/v1/jobs").status_code == 200
        assert nobody.head("/v1/jobs").status_code == 401
