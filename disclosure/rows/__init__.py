"""Rows that may be published: synthetic ones, of a table in clear or of decoded estimates, and
measures of what published rows keep and disclose."""
