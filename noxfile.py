"""The test suite on every supported Python that is installed: `nox`, or `make versions`."""

from __future__ import annotations

import nox

nox.options.error_on_missing_interpreters = False
nox.options.reuse_existing_virtualenvs = True
VERSIONS = ["3.11", "3.12", "3.13"]


@nox.session(python=VERSIONS)
def tests(session: nox.Session) -> None:
    """Install with the constraints of CI and run what `make test` runs of pytest; arguments after
    `--` go to pytest, such as `-m long`."""
    session.install("-e", ".[all,dev]", "-c", "constraints.txt")
    session.run("pytest", "-n", "2", "--dist", "worksteal", "-m", "not long", *session.posargs)


@nox.session(python=VERSIONS[-1])
def newest(session: nox.Session) -> None:
    """The same with the newest version of every dependency."""
    session.install("--upgrade", "-e", ".[all,dev]")
    session.run("pytest", "-n", "2", "--dist", "worksteal", "-m", "not long", *session.posargs)
