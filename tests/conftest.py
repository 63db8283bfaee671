"""Settings of all tests: property tests draw the same examples at each run.

`RAPPOR_FUZZ=1 pytest` draws fresh ones, to look for what the fixed ones missed. Libraries take one
thread each: several test processes share the cores, and threads that wait for one another spin.
"""

import os

from hypothesis import settings

for library in ("OMP", "OPENBLAS", "NUMBA"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")  # read when the library is imported

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("fuzz", deadline=None, max_examples=1000)
settings.load_profile("fuzz" if os.environ.get("RAPPOR_FUZZ") else "repeatable")
