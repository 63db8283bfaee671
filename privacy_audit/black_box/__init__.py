"""Black-box audit of a client: what its reports reveal, against what its metrics promise."""
