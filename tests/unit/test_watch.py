"""The live view: its frames, and a watcher beside a writer in another process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedmpi.errors import RecordError
from fedmpi.report.format import display_width
from fedmpi.report.live import cut, frame, one_line, snapshot, span, sparkline
from tests.support.records import add_evaluation, add_round, make_record, start_record

WATCH = [sys.executable, "-m", "fedmpi", "watch"]
TIME_LIMIT = 60


def watching(*arguments: str | Path) -> subprocess.Popen[str]:
    command = [*WATCH, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_sparkline() -> None:
    assert sparkline([7.0, 0.0, 3.5], 10) == "█▁▅"
    assert sparkline([5.0, 5.0], 10) == "▁▁"
    assert sparkline([0.0, 2.0, 7.0, 9.0], 2) == "▁█"
    assert sparkline([1.0, float("nan"), 2.0], 10) == "▁ █"
    assert sparkline([], 10) == ""
    assert sparkline([900.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0, 0.0], 10) == "██▇▆▅▄▃▂▁▁"


@pytest.mark.parametrize(("value", "said"), [(0.4, "0 s"), (59.4, "59 s"), (185, "3 min 5 s"), (7810, "2 h 10 min")])
def test_span(value: float, said: str) -> None:
    assert span(value) == said


def test_cut_counts_columns_not_characters() -> None:
    assert cut("文字ab", 5) == "文字a"


def test_the_frame_of_a_finished_run(tmp_path: Path) -> None:
    lines = frame(snapshot(make_record(tmp_path / "a.h5", losses=(8, 4, 2), scale=0.01)), 80)
    assert lines[0] == "a.h5  md, seed 1  done"
    assert lines[1] == f"rounds  2/2  {'█' * 30}  100 %  3.57 rounds/s"
    assert lines[2] == "loss    2.0000 at round 2  █▃▁"
    assert lines[3] == "N       2 in the last round, 2.00 on average, m = 2"
    assert lines[4] == "moved   160 B logical, 120 B on the wire"
    assert lines[5] == "phases  mean of the last 2 rounds, 280 ms in all"
    assert lines[6] == f"  sample        10 ms    4 %  {'█' * 6}"
    assert lines[12] == f"  record        70 ms   25 %  {'█' * 40}"
    assert len(lines) == 13


@pytest.mark.parametrize("width", [20, 40, 200])
def test_no_line_is_wider_than_the_terminal(tmp_path: Path, width: int) -> None:
    lines = frame(snapshot(make_record(tmp_path / "a.h5", losses=[9.0] * 60)), width)
    assert max(map(display_width, lines)) <= width


def test_time_left_is_at_the_pace_of_the_last_rounds(tmp_path: Path) -> None:
    writer = start_record(tmp_path / "a.h5", "md", 1, 100)
    for t in range(21):
        add_round(writer, t, (0,), t + 1, scale=100.0 if t == 0 else 0.5)
    writer.file.close()
    now = snapshot(tmp_path / "a.h5")
    # 28 phases-seconds at half speed: 14 s a round, 79 rounds to go.
    assert one_line(now) == "running: round 21/100  no loss yet  14 s per round, 18 min 26 s left"


def test_a_failed_run_says_why_without_escape_codes(tmp_path: Path) -> None:
    now = snapshot(make_record(tmp_path / "a.h5", failure="client 3 \x1b[31mdiverged", T=9))
    assert frame(now)[-1] == "failed: client 3 \ufffd[31mdiverged"


def test_a_stopped_run_is_not_called_failed(tmp_path: Path) -> None:
    path = make_record(tmp_path / "a.h5", stopped="stopped by SIGTERM", T=9)
    lines = frame(snapshot(path))
    assert lines[0] == "a.h5  md, seed 1  stopped"
    assert lines[-1] == "stopped by SIGTERM"
    assert one_line(snapshot(path)).startswith("stopped: round 2/9  loss 2.0000")
    assert "fail" not in "".join([*lines, one_line(snapshot(path))])
    watcher = watching("--once", path)
    watcher.communicate(timeout=TIME_LIMIT)
    assert watcher.returncode == 0


def test_a_silent_writer_is_said_after_a_while(tmp_path: Path) -> None:
    writer = start_record(tmp_path / "a.h5", "md", 1, 5)
    add_round(writer, 0, (0,), 1, scale=0.001)
    writer.file.close()
    assert not snapshot(tmp_path / "a.h5").stalled
    long_ago = time.time() - 300
    os.utime(tmp_path / "a.h5", (long_ago, long_ago))
    now = snapshot(tmp_path / "a.h5")
    assert now.stalled
    assert frame(now)[-1].startswith("nothing written for 5 min")


def test_long_rounds_are_not_called_silence(tmp_path: Path) -> None:
    writer = start_record(tmp_path / "a.h5", "md", 1, 5)
    add_round(writer, 0, (0,), 1, scale=10.0)
    writer.file.close()
    long_ago = time.time() - 300
    os.utime(tmp_path / "a.h5", (long_ago, long_ago))
    assert not snapshot(tmp_path / "a.h5").stalled


def test_no_record_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="no such record"):
        snapshot(tmp_path / "none.h5")


def test_a_watcher_follows_a_writer_to_the_end(tmp_path: Path) -> None:
    writer = start_record(tmp_path / "a.h5", "md", 1, 3)
    add_evaluation(writer, 0, 8.0)
    add_round(writer, 0, (0,), 1)
    watcher = watching(tmp_path / "a.h5")
    assert watcher.stdout is not None
    assert watcher.stdout.readline().startswith("running: round 1/3  loss 8.0000")
    # The writer goes on while it is being watched, and what it writes is seen.
    for t in (1, 2):
        add_evaluation(writer, t + 1, 8.0 - t)
        add_round(writer, t, (0,), t + 1)
    writer.close()
    said, failed = watcher.communicate(timeout=TIME_LIMIT)
    assert said.splitlines()[-1].startswith("done: round 3/3  loss 6.0000")
    assert (watcher.returncode, failed) == (0, "")


def test_leaving_with_ctrl_c_is_no_failure_and_harms_nobody(tmp_path: Path) -> None:
    writer = start_record(tmp_path / "a.h5", "md", 1, 3)
    watcher = watching(tmp_path / "a.h5")
    assert watcher.stdout is not None
    assert watcher.stdout.readline().startswith("running: round 0/3")
    watcher.send_signal(signal.SIGINT)
    said, failed = watcher.communicate(timeout=TIME_LIMIT)
    assert (watcher.returncode, said, failed) == (0, "", "")
    add_round(writer, 0, (0,), 1)
    writer.close()
    assert snapshot(tmp_path / "a.h5").done == 1


def test_once_is_one_frame_and_a_failed_run_is_exit_code_1(tmp_path: Path) -> None:
    watcher = watching("--once", make_record(tmp_path / "a.h5", failure="it broke", T=9))
    said, failed = watcher.communicate(timeout=TIME_LIMIT)
    assert said.splitlines()[0] == "a.h5  md, seed 1  failed"
    assert said.splitlines()[-1] == "failed: it broke"
    assert (watcher.returncode, failed) == (1, "")
