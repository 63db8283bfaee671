"""The schema of version 0.3.0; no version before it was released."""

revision = "0008"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Do nothing: a new database is created from the models, at the newest revision."""
