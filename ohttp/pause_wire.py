"""How the signed list of paused metrics travels: its path, its type and its sizes.

Without a library, so that a collector, which cannot read a list, serves one.
"""

LIST_PATH = "/v1/paused"
LIST_TYPE = "application/octet-stream"
SIGNATURE_BYTES = 64
MOST_BYTES = 16_384  # of a list, its signature among them
