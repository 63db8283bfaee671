"""People and their rights: keys, sessions, an identity provider, quotas, the audit log."""
