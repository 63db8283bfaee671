"""A new kind is two modules and a line in each table: from `metrics.toml` to the page of a job."""

import pytest

from decoder.kinds.interface import DECODERS
from rappor_cli.main import main
from rappor_core.metrics.kinds import KINDS
from tests.decoder_service.in_process import do_jobs
from tests.decoder_service.support import running, submit, upload
from tests.decoder_service.test_pages import signed_in
from tests.kinds.worlds import World
from tests.metric_texts import declaration

TEXT = "budget = 8\n" + declaration(
    "tabs", "parity", description="Whether a browser has an odd number of tabs", min_reports=100,
    min_reports_per_cohort=1, epsilon_infinity=4.0, epsilon_one=3.0,
)  # fmt: skip


@pytest.fixture(autouse=True)
def parity(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of the new kind."""
    monkeypatch.setitem(KINDS, "parity", "tests.kinds.parity_kind:PARITY")
    monkeypatch.setitem(DECODERS, "parity", "tests.kinds.parity_decoder")


def test_from_devices_by_a_collector_to_a_result(tmp_path, capsys) -> None:
    (tmp_path / "metrics.toml").write_text(TEXT)
    folder = tmp_path / "out"
    words = ["quickstart", str(tmp_path / "metrics.toml"), "--devices", "3000", "--seed", "1"]
    assert main([*words, "-o", str(folder)]) == 0
    assert "Odd and even" in capsys.readouterr().out
    odd, even = (folder / "tabs" / "parities.csv").read_text().splitlines()[1:]
    assert float(odd.split(",")[1]) == pytest.approx(2 / 3, abs=0.05)
    assert even.startswith('"even"')
    assert "Odd and even" in (folder / "tabs" / "report.html").read_text()


def test_a_job_ends_on_its_page(tmp_path) -> None:
    (counts,) = World("parity", TEXT).counts[0]
    with running(f"sqlite:///{tmp_path}/d.sqlite", tick_seconds=0) as served:
        with served.client("ana") as ana:
            uploaded = upload(ana, counts.to_json().encode())
            job = submit(ana, {"source": {"aggregates": [uploaded]}})
            assert do_jobs(served.service, tmp_path) == 1
            ended = ana.get(f"/v1/jobs/{job}").json()
            assert ended["state"] == "done", ended
            rows = ana.get(f"/v1/results/{ended['result_id']}/data?format=csv").text
            assert rows.startswith('"parity","share"')
        with signed_in(served, "ana") as browser:
            shown = browser.get(f"/results/{ended['result_id']}").text
            assert "Odd and even" in shown
            assert browser.get("/jobs/new?kind=parity").status_code == 200
