"""Sessions end with the role that they were made with, and a person has so many."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from decoder_service.people.access import COMMAND_LINE, MAX_SESSIONS, Access
from decoder_service.people.oidc import claimed
from decoder_service.people.permissions import Claimed, Role
from decoder_service.shell.errors import NoGroupError
from decoder_service.shell.service import make_service
from decoder_service.shell.settings import ServiceSettings
from rappor_server.errors import AuthenticationError
from rappor_server.schema import prepare

ISSUER = "https://provider.example.org"
SUBJECT = "one"


@pytest.fixture
def access(settings: ServiceSettings) -> Iterator[Access]:
    now = [datetime(2026, 11, 21, tzinfo=UTC)]

    def clock() -> datetime:
        now[0] += timedelta(seconds=1)
        return now[0]

    service = make_service(settings, clock=clock)
    prepare(service.database)
    yield service.access
    service.close()


def sign_in(access: Access, role: Role) -> str:
    return access.sign_in_claimed(ISSUER, Claimed(SUBJECT, "ann", role))[1]


def holds(access: Access, token: str) -> bool:
    try:
        access.person_of_session(token)
    except AuthenticationError:
        return False
    return True


def test_a_lower_role_ends_older_sessions(access: Access) -> None:
    admin, again = sign_in(access, Role.ADMIN), sign_in(access, Role.ADMIN)
    assert holds(access, admin)
    viewer = sign_in(access, Role.VIEWER)
    assert [holds(access, token) for token in (admin, again, viewer)] == [False, False, True]


def test_lost_groups_end_sessions_and_the_role(access: Access) -> None:
    token = sign_in(access, Role.ANALYST)
    person = access.person_of_session(token)
    access.forget_role(ISSUER, "another")
    assert holds(access, token)
    settings = ServiceSettings(oidc_analysts=("a",))
    with pytest.raises(NoGroupError) as refused:
        claimed({"sub": SUBJECT, "groups": ["b"]}, settings, "groups")
    access.forget_role(ISSUER, refused.value.subject)
    assert not holds(access, token)
    with access.database.reading() as db:
        assert access.person_of_id(db, person.id) is None  # nor do schedules run on


def test_the_oldest_sessions_of_a_person_end(access: Access) -> None:
    keys = [access.create_key(COMMAND_LINE, name, Role.VIEWER).text for name in ("ann", "ben")]
    other = access.sign_in(keys[1])
    tokens = [access.sign_in(keys[0]) for _ in range(MAX_SESSIONS + 3)]
    assert [holds(access, token) for token in tokens] == [False] * 3 + [True] * MAX_SESSIONS
    assert holds(access, other)
