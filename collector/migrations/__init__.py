"""Alembic migrations, for SQLite and PostgreSQL alike; run by `rappor migrate`."""
