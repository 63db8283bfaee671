"""The collector: FastAPI and SQL; counters, never people."""
