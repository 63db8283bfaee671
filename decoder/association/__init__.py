"""How two values go together: tables of pairs, and of two metrics in one report."""
