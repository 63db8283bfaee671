"""What the project's HTTP services share: databases, backups, logs, problem documents, settings."""
