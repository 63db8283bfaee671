"""The schema of version 0.3.0, the first published one; new databases begin at a later revision."""

revision = "0013_daily_series"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Do nothing: an empty database gets the tables of the models (`rappor_server.schema`)."""
