"""Tables of results: columns declared once, written as CSV, Parquet, JSON, text and HTML."""
