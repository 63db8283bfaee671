"""The tables of the service's first released schema, which its models make."""

revision = "0014_operations"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Do nothing: an empty database gets the tables of the models (`rappor_server.schema`)."""
