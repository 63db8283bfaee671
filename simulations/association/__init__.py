"""How two values go together: pairs against linked reports."""
