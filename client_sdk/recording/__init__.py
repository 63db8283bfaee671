"""The path from a recorded value to a queued report, limited by the ledger."""
