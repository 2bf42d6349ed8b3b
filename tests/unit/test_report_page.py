"""A whole report from tiny records: what is written, what the page says, and what it must never do."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fedmpi.config import Config, parse_override
from fedmpi.errors import RecordError
from fedmpi.report.study import read_study
from fedmpi.report.text import date, warnings
from fedmpi.report.write import WrittenReport, write_report
from tests.support.records import make_record, start_record

HOSTILE = "<img src=x onerror=alert(1)>$x_{$"
SEEDS = (1, 2)


class Reader(HTMLParser):
    """The tags with their attributes, and the text."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def table(directory: Path, name: str) -> list[dict[str, str]]:
    with (directory / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, WrittenReport]:
    """Two schemes of two seeds, one of which is named to do harm, and a run that failed."""
    home = tmp_path_factory.mktemp("report")
    out = home / "new" / "out"
    out.mkdir(parents=True)
    (out / "mine.txt").write_text("kept")
    own = f"x:{HOSTILE}"
    losses = {"md": ((8, 4, 2), (8, 6, 4)), own: ((8, 3, 1), (8, 5, 2))}
    records = [
        make_record(
            home / f"{k}-{seed}.h5", scheme, seed, losses[scheme][seed - 1], names=(HOSTILE, "b", "c"), accuracy=0.5
        )
        for k, scheme in enumerate(losses)
        for seed in SEEDS
    ]
    records.append(make_record(home / "broken.h5", "md", 3, (8, 7), failure=f"it broke {HOSTILE}", T=2))
    return out, write_report(records, out)


def test_the_files(made: tuple[Path, WrittenReport]) -> None:
    out, report = made
    figures = {f"{q}-{x}" for q in ("loss", "accuracy") for x in ("rounds", "bytes", "seconds")}
    figures |= {"difference", "phases", "draws-N", "draws-omega", "participation", "ranks"}
    assert {path.stem for path in out.glob("*.png")} == {path.stem for path in out.glob("*.pdf")} == figures
    tables = {"schemes", "target", "phases", "bytes", "draws", "clients", "ranks", "records"}
    for suffix in ("csv", "tex"):
        assert {path.stem for path in out.glob(f"*.{suffix}")} == tables
    assert (out / "mine.txt").read_text() == "kept"
    assert report.page == out / "index.html"
    assert (out / "loss-rounds.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "loss-rounds.pdf").read_bytes().startswith(b"%PDF")


def test_the_numbers_of_the_headline(made: tuple[Path, WrittenReport]) -> None:
    md, own = table(made[0], "schemes")
    assert (md["final_loss"], own["final_loss"]) == ("3.0", "1.5")
    assert float(md["final_loss_high"]) == pytest.approx(3 + 12.7062047)
    assert own["loss_of_reference_minus_loss"] == "1.5"
    assert md["loss_of_reference_minus_loss"] == ""
    assert (md["N"], md["per_round_bytes"], md["communication_per_round_seconds"]) == ("2.0", "80.0", "6.0")
    assert (md["rounds"], md["seeds"]) == ("2", "2")


def test_the_numbers_of_the_other_tables(made: tuple[Path, WrittenReport]) -> None:
    out, _ = made
    md, own = table(out, "target")
    # The worst run's best loss is 4: md's seeds reach it after 1 and 2 rounds, the other's after 0.8 and 4/3.
    assert (md["rounds_to_target"], md["bytes_to_target_bytes"], md["seconds_to_target_seconds"]) == (
        "1.5",
        "120.0",
        "9.0",
    )
    assert float(own["rounds_to_target"]) == pytest.approx((0.8 + 4 / 3) / 2)
    phases = table(out, "phases")[0]
    assert [float(phases[f"{name}_seconds"]) for name in ("sample", "record", "total")] == [1, 7, 28]
    moved = table(out, "bytes")[0]
    assert (moved["down_logical_bytes"], moved["down_wire_bytes"], moved["up_wire_bytes"]) == ("40.0", "20.0", "40.0")
    client = table(out, "clients")[2]
    assert (client["client"], client["p"], client["share"], client["share_low"]) == ("2", "0.25", "0.0", "0.0")
    server, worker = table(out, "ranks")[:2]
    assert (server["device"], worker["device"], worker["clients"]) == ("server", "cpu", "3")
    assert [worker[f"{name}_seconds"] for name in ("compute", "send", "idle")] == ["3.0", "1.0", "2.0"]


def test_the_page_is_whole_and_needs_nothing_else(made: tuple[Path, WrittenReport]) -> None:
    page = Reader(made[1].page)
    assert made[1].page.read_text().startswith("<!DOCTYPE html>\n<html lang=")
    assert page.open == []
    assert not page.all("script")
    images = page.all("img")
    assert len(images) == 12
    assert all((image["src"] or "").startswith("data:image/svg+xml;base64,") for image in images)
    assert all(len(image["alt"] or "") > 40 for image in images)
    local = [link["href"] for link in page.all("a")]
    assert local
    for href in local:
        assert re.fullmatch(r"[\w-]+\.\w+", href or ""), href
        assert (made[0] / str(href)).exists()
    assert [link["href"] for link in page.all("link")] == ["data:,"]
    assert not re.search(r"url\(|@import", made[1].page.read_text())


def test_every_name_is_text_and_nothing_more(made: tuple[Path, WrittenReport]) -> None:
    page = Reader(made[1].page)
    assert not any("onerror" in attributes for _, attributes in page.tags)
    # As the scheme in the headline, as a client's name, and in the reason why a run broke.
    assert f"x:{HOSTILE}" in page.text
    assert f"it broke {HOSTILE}" in page.text
    assert "&lt;img src=x onerror=alert(1)&gt;$x_{$</td>" in made[1].page.read_text()


def test_the_page_says_what_was_run_and_how_to_run_it_again(made: tuple[Path, WrittenReport]) -> None:
    out, _ = made
    text = Reader(out / "index.html").text
    assert "Some MPI v1" in text
    assert "built somewhere" not in text
    assert "here, there" in text
    assert "m = 2, 3 seeds (1–3)" in text
    assert "mpirun -n 2 fedmpi run config.toml -o 0-1.h5" in text
    assert "mpirun -n 2 fedmpi run config.toml -s run.seed=2 -o 0-2.h5" in text
    config = Config.load(out / "config.toml")
    assert (config.run.seed, config.run.T, config.sampling.m) == (1, 2, 2)
    (line,) = [line for line in text.splitlines() if line.endswith("-o 1-2.h5")]
    settings = re.findall(r"-s ('[^']*'|\S+)", line)
    again = config.replace(dict(parse_override(setting.strip("'")) for setting in settings))
    assert (again.sampling.scheme, again.run.seed) == (f"x:{HOSTILE}", 2)


def test_the_broken_run_is_named_and_left_out(made: tuple[Path, WrittenReport]) -> None:
    (warning,) = made[1].warnings
    assert warning.startswith("broken.h5 (md, seed 3) failed after 1 of 2 rounds: left out of all averages; it broke")
    assert "Please note" in Reader(made[1].page).text


def test_a_running_record_without_evaluations(tmp_path: Path) -> None:
    start_record(tmp_path / "a.h5", "md", 1, 5).file.close()
    report = write_report([tmp_path / "a.h5"], tmp_path / "out")
    text = Reader(report.page).text
    assert "has 0 of 5 rounds: left out of all averages; still running, or killed; no evaluations." in text
    assert "there is no loss to show" in text
    assert not list((tmp_path / "out").glob("*.png"))


def test_one_run_of_a_biased_scheme_at_a_target_it_misses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedmpi.report.figures.save", lambda figure, stem: b"<svg/>")
    path = make_record(tmp_path / "a.h5", "fedavg", settings={"sampling.importance": "uniform"})
    report = write_report([path], tmp_path / "out", target=0.5)
    text = Reader(report.page).text
    assert "fedavg: biased, so there is no law to compare with." in text
    assert "0 of 1" in text
    assert "paired by seed" not in text
    assert "There are no accuracies: this problem has no test data." in text
    assert "Accuracy against" not in text


def test_dates_are_read_by_people() -> None:
    assert date("2026-11-18T10:35:40+00:00") == "18 Nov 2026, 10:35 UTC"
    assert date("2026-03-01T00:35:40+02:00") == "28 Feb 2026, 22:35 UTC"
    assert date("0001-01-01T00:00:00+02:00") == "0001-01-01T00:00:00+02:00"
    assert date("yesterday") == "yesterday"


def test_a_stopped_run_is_said_to_be_stopped(tmp_path: Path) -> None:
    path = make_record(tmp_path / "a.h5", stopped="stopped by SIGTERM", T=9)
    (warning,) = warnings(read_study([path]))
    assert warning == "a.h5 (md, seed 1) was stopped after 2 of 9 rounds: stopped by SIGTERM."


def test_long_tables_are_in_their_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedmpi.report.page.MOST_ROWS", 2)
    monkeypatch.setattr("fedmpi.report.page.MOST_UNFOLDED", 1)
    monkeypatch.setattr("fedmpi.report.write.draw_all", lambda *given: [])
    page = Reader(write_report([make_record(tmp_path / "a.h5")], tmp_path / "out").page)
    assert "It has 3 rows, which are in these files only" in " ".join(page.text.split())
    assert "Every rank" in page.text


def test_a_report_cannot_be_written_into_a_file(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(RecordError, match=r"cannot write the report to .*out: File exists"):
        write_report([make_record(tmp_path / "a.h5")], tmp_path / "out")


def test_reports_need_neither_mpi_nor_torch_and_draw_without_pyplot(tmp_path: Path) -> None:
    path = make_record(tmp_path / "a.h5")
    script = (
        "import sys, fedmpi.report.live, fedmpi.report.write as write, fedmpi.report.figures as figures\n"
        "assert 'matplotlib' not in sys.modules\n"
        "figures.figure_specs = lambda *given, specs=figures.figure_specs: list(specs(*given))[:1]\n"
        f"write.write_report([{str(path)!r}], {str(tmp_path / 'out')!r})\nprint(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "matplotlib.figure" in loaded
    assert not {"torch", "mpi4py", "click", "matplotlib.pyplot", "scipy"} & loaded
