"""The `rappor` command: thin. Each sub-command loads its own package when it is called."""
