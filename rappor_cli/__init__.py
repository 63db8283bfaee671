"""The `rappor` command; each subcommand imports its own package only when it is called."""
