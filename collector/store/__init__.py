"""The collector's tables and their SQL statements, without HTTP or knowledge of metrics."""
