"""Who may do what: keys, sessions, an identity provider, quotas, the audit log."""
