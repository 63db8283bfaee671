"""Alembic's revisions, one module each."""
