"""Every crash, hang and waste of memory that fuzzing has found, by name: none comes back."""

from __future__ import annotations

import gzip
import json
import os
import resource
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

from fedmpi.config import Config, parse_override
from fedmpi.data.characters import encode
from fedmpi.data.sources.archive import read_members
from fedmpi.data.sources.gutenberg import import_gutenberg
from fedmpi.data.sources.leaf import import_leaf, read_users
from fedmpi.data.store import names_array
from fedmpi.errors import ConfigError, DataError, FedmpiError, RecordError
from fedmpi.network.links import read_trace
from fedmpi.record import is_record, open_record
from fedmpi.report.live import frame, snapshot
from fedmpi.report.target import rounded_up
from fedmpi.report.write import write_report
from tests.fuzz.records import seeds, use
from tests.support.records import make_record

TIME_LIMIT = 60
DONE, OWN, RUNNING, KILLED, EARLY = range(5)


def in_a_child(code: str, *arguments: str | Path) -> None:
    """Run Python that must end by itself, within the time limit and a gigabyte, with its own assertions."""
    limit = (4 << 30, 4 << 30)
    subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        check=True,
        timeout=TIME_LIMIT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit),
    )


REFUSED = """
import sys
from fedmpi.errors import RecordError
from fedmpi.record import open_record
try:
    record = open_record(sys.argv[1])
    for name in ("config", "rounds", "cohorts", "evals", "theta", "history", "clients", "ranks", "status", "message"):
        getattr(record, name)
except RecordError as error:
    assert "\\n" not in str(error)
else:
    raise AssertionError("took a damaged record for a whole one")
"""


def test_a_truncated_record_of_a_killed_writer_is_refused_at_once(tmp_path: Path) -> None:
    """HDF5 in SWMR mode reads damaged metadata 100 times, and sleeps twice as long each time: 2¹⁰⁰ ns in all."""
    for share in (0.1, 0.4, 0.9):
        content = seeds()[KILLED]
        (tmp_path / "x.h5").write_bytes(content[: int(share * len(content))])
        in_a_child(REFUSED, tmp_path / "x.h5")


def test_a_truncated_record_that_was_closed_is_not_tried_in_swmr_mode(tmp_path: Path) -> None:
    (tmp_path / "x.h5").write_bytes(seeds()[DONE][:20_000])
    in_a_child(REFUSED, tmp_path / "x.h5")


def test_a_damaged_heap_of_strings_does_not_send_hdf5_in_circles(tmp_path: Path) -> None:
    """Early records kept attributes in a heap; an object of length 0 in it was read for ever."""
    content = bytearray(seeds()[EARLY])
    heap = content.index(b"GCOL")
    struct.pack_into("<HHIQ", content, heap + 16, 0, 0, 0, 0)
    (tmp_path / "x.h5").write_bytes(content)
    in_a_child(REFUSED, tmp_path / "x.h5")


def test_early_records_are_still_read(tmp_path: Path) -> None:
    (tmp_path / "x.h5").write_bytes(seeds()[EARLY])
    with open_record(tmp_path / "x.h5") as record:
        assert record.config.sampling.scheme == "md"
        assert record.attributes["hosts"].tolist() == ["here", "there"]


def test_strings_of_a_record_stand_where_checksums_are(tmp_path: Path) -> None:
    with h5py.File(make_record(tmp_path / "x.h5")) as file:
        for name in file.attrs:
            string = h5py.check_string_dtype(file.attrs.get_id(name).dtype)
            assert string is None or string.length is not None, name


def test_old_formats_of_hdf5_are_not_even_opened(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w", libver="earliest") as file:
        file.attrs.update(format="fedmpi-record", format_version="1.0")
    with pytest.raises(RecordError, match="an HDF5 file, but not a fedmpi record"):
        open_record(tmp_path / "x.h5")


def changed(tmp_path: Path, change: Callable[[h5py.File], Any], seed: int = DONE) -> Path:
    """A valid record, with a change."""
    path = tmp_path / "x.h5"
    path.write_bytes(seeds()[seed])
    with h5py.File(path, "r+", libver="latest") as file:
        change(file)
    return path


def cell(name: str, column: str, value: Any) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        rows = file[name][()]
        rows[column][0] = value
        file[name][()] = rows

    return change


def other(name: str, **made: Any) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        del file[name]
        file.create_dataset(name, **made)

    return change


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(cell("/cohorts", "client", 10**15), id="a client whose count would fill memory"),
        pytest.param(cell("/cohorts", "client", -1), id="a negative client"),
        pytest.param(cell("/rounds", "cohort_end", 2**62), id="more participations than there are"),
        pytest.param(cell("/rounds", "N", 10**12), id="a histogram of more bars than memory"),
        pytest.param(cell("/rounds", "time_total", float("inf")), id="a round without end"),
        pytest.param(cell("/rounds", "up_bytes_logical", -(2**63)), id="negative bytes"),
        pytest.param(cell("/evals", "t", -5), id="an evaluation before the first"),
        pytest.param(lambda f: f["/rounds_done"].write_direct(np.array(2**62)), id="rounds that are not there"),
        pytest.param(lambda f: f["/rounds_done"].write_direct(np.array(-1)), id="negative rounds"),
        pytest.param(other("/model/theta", shape=(10**15,), dtype="<f4", chunks=(64,)), id="θ of a petabyte"),
        pytest.param(other("/clients/p", shape=(10**12,), dtype="<f8", chunks=(64,)), id="10¹² clients"),
        pytest.param(other("/rounds", shape=(3,), dtype="<f8"), id="a table that is none"),
        pytest.param(other("/evals", shape=(1,), dtype=[("t", "<i8")]), id="a column less"),
        pytest.param(other("/status", data="done"), id="a status of any length"),
        pytest.param(other("/message", shape=(), dtype="S900000"), id="a message of a megabyte"),
        pytest.param(other("/clients/name", shape=(3,), dtype=h5py.string_dtype()), id="names of any length"),
        pytest.param(other("/ranks/host", shape=(0,), dtype="S256"), id="no rank"),
        pytest.param(lambda f: f.pop("/ranks"), id="no ranks"),
        pytest.param(lambda f: f.attrs.pop("config"), id="no config"),
        pytest.param(lambda f: f.attrs.update(config=3), id="a config that is a number"),
        pytest.param(lambda f: f.attrs.update(config="[" * 100_000), id="a config too deep"),
        pytest.param(lambda f: f.attrs.update(format_version="2.0"), id="a later format"),
        pytest.param(lambda f: f.attrs.update(format_version=np.zeros(3)), id="a format that is a list"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused_in_a_sentence(tmp_path: Path, change: Any) -> None:
    with pytest.raises(RecordError) as caught:
        use(changed(tmp_path, change))
    assert "\n" not in str(caught.value)
    assert "x.h5" in str(caught.value)


@pytest.mark.parametrize(
    "link", [h5py.SoftLink("/model/theta"), h5py.SoftLink("/evals"), h5py.ExternalLink("y.h5", "/evals")]
)
def test_a_record_cannot_lead_elsewhere(tmp_path: Path, link: Any) -> None:
    make_record(tmp_path / "y.h5")

    def change(file: h5py.File) -> None:
        del file["/evals"]
        file["/evals"] = link

    with pytest.raises(RecordError, match="/evals is not what format 1"):
        use(changed(tmp_path, change))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda f: f.attrs.pop("hosts"), id="no hosts: show took them for granted"),
        pytest.param(lambda f: f.attrs.update(torch_version=[1, 2]), id="a version that is a list"),
        pytest.param(lambda f: f.attrs.update(mpi_library="\n"), id="a library without a name"),
        pytest.param(lambda f: f.attrs.update(extra=h5py.Empty("f8")), id="an empty attribute"),
        pytest.param(lambda f: f.attrs.update(extra=f.ref), id="an attribute that is a reference"),
        pytest.param(lambda f: f["/status"].write_direct(np.array(b"\xff\x1b[2J")), id="a status no terminal"),
        pytest.param(lambda f: f["/message"].write_direct(np.array(b"\x1b]0;x\x07\xff")), id="a message likewise"),
        pytest.param(cell("/evals", "loss", 1.7976e308), id="a loss that cannot be rounded up"),
        pytest.param(cell("/evals", "loss", float("inf")), id="a loss that is infinite"),
        pytest.param(cell("/rounds", "sum_omega", float("nan")), id="weights that are no numbers"),
    ],
)
def test_a_strange_record_is_shown_and_reported(tmp_path: Path, change: Any) -> None:
    with np.errstate(all="ignore"):
        use(changed(tmp_path, change))


def test_a_record_with_more_rounds_than_asked_for_has_a_short_bar(tmp_path: Path) -> None:
    path = make_record(tmp_path / "x.h5", losses=(), rounds=40, T=1)
    assert max(map(len, frame(snapshot(path), 80))) <= 80


def test_options_of_a_recorded_scheme_cannot_clash_with_its_arguments(tmp_path: Path) -> None:
    config = Config().to_toml().replace("options = {}", "options = {p = 1}")
    with pytest.raises(RecordError, match=r"sampling\.options\.p"):
        use(changed(tmp_path, lambda f: f.attrs.update(config=np.bytes_(config.encode()))))


def test_the_largest_loss_is_a_target() -> None:
    assert rounded_up(sys.float_info.max) == sys.float_info.max


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "", ".", "no/such"])
def test_paths_that_cannot_be_are_no_records_and_no_settings(name: str) -> None:
    assert not is_record(name)
    with pytest.raises(RecordError):
        open_record(name)
    with pytest.raises(ConfigError):
        Config.load(name)


WAITING = """
import sys
from pathlib import Path
from fedmpi.config import Config
from fedmpi.cli.source import load
from fedmpi.data.sources.cifar10 import import_cifar10
from fedmpi.data.sources.gutenberg import import_gutenberg
from fedmpi.data.importance import numbers_in
from fedmpi.data.sources.shakespeare import get_shakespeare
from fedmpi.errors import FedmpiError
from fedmpi.network.links import read_trace
from fedmpi.record import open_record
name = sys.argv[1]
for read in (Config.load, open_record, lambda name: load(name, ()), lambda name: read_trace(name, 3)):
    try: read(name)
    except FedmpiError: pass
    else: raise AssertionError(read)
for read in (import_gutenberg, import_cifar10, get_shakespeare, numbers_in):
    try: read(Path(name))
    except FedmpiError: pass
    else: raise AssertionError(read)
"""


def test_a_pipe_that_nobody_writes_keeps_no_reader_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    in_a_child(WAITING, tmp_path / "pipe")


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
def test_a_device_without_end_is_not_read(device: str) -> None:
    in_a_child(WAITING, device)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"[run]\nT = {'9' * 5000}", id="more digits than Python reads"),
        pytest.param(f"[run]\nT = 0x{'f' * 5000}", id="more digits than Python prints"),
        pytest.param(f"[client]\neta_l = 0x{'f' * 5000}", id="the same for a number"),
        pytest.param(f"[sampling.options.{'a.' * 5000}b]\nc = 1", id="a table deeper than the stack"),
        pytest.param(f"sampling.options.{'a.' * 20_000}b = 1", id="a key whose square is a minute"),
        pytest.param(f"""{'"=".' * 20_000}b = 1""", id="the same in quotation marks"),
        pytest.param(
            "[sampling]\noptions = " + "{a = " * 300 + "1" + "}" * 300, id="inline tables deeper than the stack"
        ),
        pytest.param("[sampling]\noptions = {a = 1979-05-27}", id="a date, which cannot be written again"),
        pytest.param("[sampling]\noptions = {a = [nan]}", id="a value that does not equal itself"),
        pytest.param("[sampling]\noptions = {p = 1}", id="an option that every scheme is given"),
        pytest.param('[sampling]\nscheme = "' + "x" * 10_000 + '"', id="a name of 10,000 characters"),
        pytest.param('["a\\nb"]\nc = 1', id="a table's name of two lines"),
        pytest.param('[run]\n"a\\u001b[2J" = 1', id="a key that a terminal would act upon"),
        pytest.param("[data]\nn = 4611686018427387904", id="more clients than memory"),
        pytest.param("[sweep]\nseeds = 4611686018427387904", id="more seeds than memory"),
    ],
)
@pytest.mark.timeout(TIME_LIMIT)  # some took a minute
def test_toml_that_is_refused_in_a_short_sentence(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.from_toml(text)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "text", ["run.name=\udcff", "sampling.scheme=\udcff", "run.T=" + "[" * 3000, "a" * 10_000, f"{'a.' * 5000}b=1"]
)
def test_arguments_that_are_refused_in_a_short_sentence(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.load("quadratic", dict([parse_override(text)]))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


def test_windows_of_leaf_that_are_lists_are_refused() -> None:
    user = {"x": [["a"] * 80], "y": [["b"]]}
    with pytest.raises(DataError, match="not JSON as LEAF's"):
        read_users(Path("x.json"), json.dumps({"user_data": {"u": user}}).encode())


def test_a_name_of_a_megabyte_does_not_make_all_names_as_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest name sets the room of all: a thousand users were a gigabyte."""
    assert names_array(["é" * 10**6, *["b"] * 1000]).nbytes == 1001 * 256
    monkeypatch.setenv("FEDMPI_CACHE", str(tmp_path / "cache"))
    window = {"x": ["a" * 80], "y": ["b"]}
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "a.json").write_text(json.dumps({"user_data": {"u" * 10**6: window, "v": window}}))
    assert import_leaf(tmp_path).stat().st_size < 100_000
    title = "T" * 10**6
    works = f"x\n\n\n\n{title}\n\nby William Shakespeare\n" + "".join(
        f"  R{'A' * k}. x\n    y\n    z\n" for k in range(1, 200)
    )
    (tmp_path / "works.txt").write_text(works)
    assert import_gutenberg(tmp_path / "works.txt").stat().st_size < 500_000


def test_a_text_of_every_character_is_encoded_in_one_pass() -> None:
    """Each of a million foreign characters used to take a pass of its own."""
    text = "".join(chr(c) for c in range(128, 0x110000) if not 0xD800 <= c < 0xE000)
    assert len(encode(text)) == len(text)


def test_a_text_of_plays_without_lines_is_no_play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDMPI_CACHE", str(tmp_path / "cache"))
    (tmp_path / "works.txt").write_text("x\n\n\nT\n\nby William Shakespeare\n  ANNA. one\n  BERT. two\n")
    with pytest.raises(DataError, match="no plays found"):
        import_gutenberg(tmp_path / "works.txt")


def test_a_tar_of_headers_about_headers_is_refused(tmp_path: Path) -> None:
    """Each of them took a frame of the stack."""
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 512
    chain = (header.tobuf(tarfile.USTAR_FORMAT) + b"7 a=b\n".ljust(512, b"\0")) * 2000
    (tmp_path / "a.tgz").write_bytes(gzip.compress(chain))
    with pytest.raises(DataError, match="not a whole"):
        list(read_members(tmp_path / "a.tgz", lambda name: True, 1 << 24))


def test_a_header_of_a_megabyte_of_digits_is_refused(tmp_path: Path) -> None:
    """Python's tarfile takes the square of its length to look through it."""
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 1 << 20
    content = header.tobuf(tarfile.USTAR_FORMAT) + b"9" * (1 << 20)
    (tmp_path / "a.tgz").write_bytes(gzip.compress(content))
    with pytest.raises(DataError, match="a header of 1048576 bytes"):
        list(read_members(tmp_path / "a.tgz", lambda name: True, 1 << 24))


def run_theory(*arguments: str | Path) -> Any:
    from fedmpi.cli.theory import theory

    return CliRunner().invoke(theory, [*map(str, arguments)])


@pytest.mark.parametrize(
    "header", [b"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), ", b"{" * 500, b"[", b"(" * 9000]
)
def test_a_npy_file_with_a_broken_header_is_refused(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "p.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header + b"\n" + bytes(24))
    assert isinstance(run_theory("--p", path).exception, ConfigError)


def test_a_npy_file_cannot_claim_more_than_it_holds(tmp_path: Path) -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }\n"
    path = tmp_path / "p.npy"
    path.write_bytes(
        b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + np.array([0.5, 0.25, 0.25]).tobytes()
    )
    assert run_theory("--p", path).exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("--seed", "-1"), ("-m", "0"), ("-m", "99999999999999999999"), ("-n", "1000000000000"), ("--eta-l", "1e308"),
        ("-K", "99999999999999999999"), ("--L", "nan"), ("--p", "/dev/zero"), ("--p", "a\udc80"),
    ],
)  # fmt: skip
def test_numbers_that_theory_cannot_work_with_are_refused(arguments: tuple[str, str]) -> None:
    done = run_theory("-n", "6", *arguments)
    assert isinstance(done.exception, FedmpiError | SystemExit), done.exception
    assert done.exit_code != 0


def test_a_trace_with_a_line_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"client,latency,down,up,speed\n" + b"1" * 10**6)
    with pytest.raises(ConfigError, match="cannot be read as a CSV file"):
        read_trace(str(tmp_path / "t.csv"), 3)


def test_a_report_of_losses_at_the_edge_of_the_numbers_is_drawn(tmp_path: Path) -> None:
    path = make_record(tmp_path / "x.h5", losses=(1.7e308, -1.7e308, 5e-324), accuracy=1e308)
    with np.errstate(all="ignore"):
        assert write_report([path], tmp_path / "out").page.is_file()
