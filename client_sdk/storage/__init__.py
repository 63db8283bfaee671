"""The state of a device on disk: schema, files, locks, protection against rollback."""
