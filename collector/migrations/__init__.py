"""Alembic migrations for both SQLite and PostgreSQL; run by `rappor migrate`."""
