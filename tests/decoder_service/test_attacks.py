"""What a stranger found: each test is a request or an answer that broke a promise once."""

from pathlib import Path

import pytest

from tests.decoder_service.support import (
    Running,
    await_state,
    decode_spec,
    running,
    submit,
    workers,
)


@pytest.mark.long
def test_a_reason_names_no_folder_of_the_machine(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/d.sqlite"
    with running(url) as served, served.client("ana") as ana:
        with workers(url, tmp_path):
            listed = ana.post("/v1/lists?name=w&kind=weights", content=b"a,1\n").json()["id"]
            spec = decode_spec(ana, weights={"list": listed}, options={"correction": "none"})
            broken = await_state(ana, submit(ana, spec))
        with workers(url, tmp_path / "gone"):
            gone = await_state(ana, submit(ana, decode_spec(ana)))
    for found in (broken, gone):
        assert found["state"] == "failed"
        assert str(tmp_path) not in found["reason"]


@pytest.mark.parametrize("charset", ["punycode", "undefined", "idna", "utf-16", "rot13", "x"])
def test_forms_of_unknown_encodings_are_refused(served: Running, charset: str) -> None:
    part = b'--b\r\nContent-Disposition: form-data; name="key"\r\n\r\n\\ud800\r\n--b--\r\n'
    kind = f"multipart/form-data; boundary=b; charset={charset}"
    with served.client(None) as client:
        answer = client.post("/sign-in", content=part, headers={"Content-Type": kind})
    assert answer.status_code in (401, 422)


def test_misplaced_keys_are_not_repeated(served: Running) -> None:
    key = served.keys["ana"]
    with served.client(None) as client:
        for body in ({"token": key}, {"key": key * 9}):
            answer = client.post("/sign-in", data=body)
            assert answer.status_code in (401, 422)
            assert key[-12:] not in answer.text
            assert key[:12] not in answer.text


def test_signing_out_with_a_key_ends_sessions(served: Running) -> None:
    with served.client(None) as client:
        client.post("/sign-in", data={"key": served.keys["ana"]})
        cookies = dict(client.cookies)
        bearer = {"Authorization": f"Bearer {served.keys['ana']}"}
        assert client.post("/sign-out", headers=bearer).status_code == 303
        client.cookies.update(cookies)
        assert client.get("/v1/session").status_code == 401
