"""The schema of version 0.3.0, the first published version; new databases begin later."""

revision = "0013_daily_series"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Do nothing: an empty database gets the tables of the models (`rappor_server.schema`)."""
