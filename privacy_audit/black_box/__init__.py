"""The black-box audit of a client: what its reports reveal, compared with its metrics' promises."""
