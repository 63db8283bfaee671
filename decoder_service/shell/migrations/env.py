"""The script that Alembic runs for each command, on the connection that `store.schema` provides."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, render_as_batch=True)
context.run_migrations()
