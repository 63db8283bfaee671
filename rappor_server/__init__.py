"""What the project's HTTP services share: databases, backups, logs, problem documents, settings.

The collector and the decoder service are built on it; each says in a `Program` what is its own. It
imports the core and libraries, and neither of the two.
"""
