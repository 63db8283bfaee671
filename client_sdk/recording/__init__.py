"""The path from a recorded value to a queued report, under the ledger."""
