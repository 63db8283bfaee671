"""Discovery of frequent strings without a list of candidates, from reports of coded prefixes."""
