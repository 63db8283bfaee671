"""The state of a device on disk: schema, files, locks, detection of damage."""
