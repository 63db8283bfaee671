"""What others see and change of a result that one has: the list it was made with, its release."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.decoder_service.in_process import do_jobs
from tests.decoder_service.support import WORDS, Running, await_state, decode_spec, running, submit


@dataclass
class Shared:
    """A result that ana had first and ben, who asked the same, has too."""

    service: Running
    result: str
    listed: str  # ana's list

    def release(self, name: str, released: bool) -> int:
        with self.service.client(name) as client:
            path = f"/v1/results/{self.result}/release"
            return client.post(path, json={"released": released}).status_code

    def page(self, name: str) -> str:
        with self.service.client(name) as client:
            answer = client.get(f"/results/{self.result}")
            assert answer.status_code == 200
            return answer.text

    def is_released(self) -> bool:
        with self.service.client("vic") as client:
            return client.get(f"/v1/results/{self.result}").status_code == 200


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("shared")
    with running(f"sqlite:///{folder}/decoder.sqlite", tick_seconds=0) as service:
        ana, listed = _asks(service, "ana", folder)
        ben, _ = _asks(service, "ben", folder)
        assert ana == ben
        yield Shared(service, ana, listed)


def _asks(service: Running, name: str, folder: Path) -> tuple[str, str]:
    with service.client(name) as client:
        listed = client.post("/v1/lists?name=words", content=WORDS).json()["id"]
        job = submit(client, decode_spec(client, candidates={"list": listed}))
        do_jobs(service.service, folder)
        found = await_state(client, job)
    assert found["state"] == "done", found
    return str(found["result_id"]), str(listed)


def test_released_results_name_lists_to_owners_alone(shared: Shared) -> None:
    assert shared.release("ana", True) == 200
    assert f"/lists/{shared.listed}" in shared.page("ana")
    for name in ("ben", "vic"):
        assert f"/lists/{shared.listed}" not in shared.page(name), name
    assert shared.listed not in shared.page("vic")
    assert shared.release("ana", False) == 200


def test_proposers_and_admins_withdraw_releases(shared: Shared) -> None:
    for releases, others in (("ana", "ben"), ("ben", "ana"), ("root", "ana")):
        assert shared.release(releases, True) == 200
        assert shared.release(others, True) == 200  # it is released: nothing changes
        assert shared.release(others, False) == 403
        assert shared.is_released()
        assert f"{shared.result}/release" not in shared.page(others)
        assert f"{shared.result}/release" in shared.page(releases)
        assert shared.release(releases, False) == 200
        assert not shared.is_released()
    assert shared.release("ana", True) == 200
    assert shared.release("root", False) == 200
    assert shared.release("vic", True) == 403
