"""The `rappor` command. Each sub-command imports its own package only when it is called."""
