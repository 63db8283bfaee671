"""The shared base of the HTTP services: databases, backups, logs, problem documents, settings."""
