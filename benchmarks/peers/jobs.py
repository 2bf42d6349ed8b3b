"""How each framework is started, and a started job: its gate, its turns, its end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from environments import python_of
from gate import Party, listen
from processes import Processes

HERE = Path(__file__).resolve().parent
# A job that says nothing for so long has failed.
PATIENCE = 300.0
# So long may a job take to end by itself.
POLITENESS = 10.0
TUNED = {f"MALLOC_{name}_": str(2**30) for name in ("MMAP_THRESHOLD", "TRIM_THRESHOLD")}

# Ray is not to think its processes dead when they were stopped while others had their turn.
RAY_PATIENCE = {
    f"RAY_{name}_timeout_ms": "3600000" for name in ("health_check", "grpc_keepalive", "grpc_client_keepalive")
}

Command = tuple[list[str], Mapping[str, str]]


class Failed(Exception):
    """A job did not start or broke off; the message is the last thing it said."""


@dataclass(frozen=True)
class Framework:
    """name: as in the table. environment: its key in PACKAGES, or "" for that of fedmpi. parties: how many of its
    processes wait at the gate. commands: what is started, given the interpreter and a folder for its files."""

    name: str
    environment: str
    parties: int
    commands: Callable[[Path, Path], list[Command]]

    def interpreter(self, folder: Path) -> Path:
        return python_of(self.environment, folder) if self.environment else Path(sys.executable)


def script(name: str) -> str:
    return str(HERE / f"{name}.py")


def bare(python: Path, folder: Path) -> list[Command]:
    return [([str(python), script("bare")], {})] * 2


def bare_tuned(python: Path, folder: Path) -> list[Command]:
    return [([str(python), script("bare")], TUNED)] * 2


def pfl(python: Path, folder: Path) -> list[Command]:
    """Two workers that know each other's addresses: what torchrun would arrange, without its extra process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        addresses = ",".join([f"127.0.0.1:{free.getsockname()[1]}"] * 2)
    return [
        ([str(python), script("pfl_job")], {"PFL_WORKER_RANK": str(rank), "PFL_WORKER_ADDRESSES": addresses})
        for rank in range(2)
    ]


def under_mpi(name: str, *arguments: str) -> Callable[[Path, Path], list[Command]]:
    """One server and two workers."""

    def commands(python: Path, folder: Path) -> list[Command]:
        mpirun = [str(python.parent / "mpirun"), "--oversubscribe", "--bind-to", "none", "-n", "3"]
        here = [argument.format(folder=folder) for argument in arguments]
        return [([*mpirun, str(python), script(name), *here], {"OMPI_MCA_mpi_yield_when_idle": "1"})]

    return commands


def one_process(name: str, own: Mapping[str, str] = MappingProxyType({})) -> Callable[[Path, Path], list[Command]]:
    return lambda python, folder: [([str(python), script(name)], own)]


def frameworks(overrides: list[str]) -> dict[str, Framework]:
    """Everything that can be compared, by the names of `--only`; `overrides`: config keys of fedmpi."""
    record = "{folder}/run.h5"
    return {
        "bare": Framework("bare PyTorch", "", 2, bare),
        "tuned": Framework("bare PyTorch, allocator tuned", "", 2, bare_tuned),
        "fedmpi": Framework("fedmpi, per-client", "", 1, under_mpi("fedmpi_job", record, *overrides)),
        "reduced": Framework(
            "fedmpi, reduced", "", 1, under_mpi("fedmpi_job", record, "comm.exchange=reduced", *overrides)
        ),
        "pfl": Framework("pfl", "pfl", 2, pfl),
        "flower": Framework("Flower (Ray)", "flower", 1, one_process("flower_job", RAY_PATIENCE)),
        "flgo": Framework("FLGo (threads)", "flgo", 1, one_process("flgo_job")),
        "appfl": Framework("APPFL (MPI)", "appfl", 1, under_mpi("appfl_job")),
        "fedml": Framework("FedML (MPI)", "fedml", 1, under_mpi("fedml_job")),
    }


class Job:
    """A framework at work: started, given turns, stopped between them, ended."""

    def __init__(self, framework: Framework, python: Path, folder: Path, environment: Mapping[str, str]) -> None:
        folder.mkdir(parents=True)
        self.framework, self.folder = framework, folder
        self.marks = folder / "first-step"
        self.marks.mkdir()
        self.processes = Processes()
        self.listener = listen(folder / "gate", PATIENCE)
        self.log = folder / "log"
        self.parties: list[Party] = []
        environment = {**environment, "PEERS_GATE": str(folder / "gate"), "PEERS_FIRST_STEP": str(self.marks)}
        commands = framework.commands(python, folder)
        self.began = time.monotonic()
        with self.log.open("wb") as log:
            self.started = [
                subprocess.Popen(
                    argv, env={**environment, **own}, cwd=folder, start_new_session=True,
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                )
                for argv, own in commands
            ]  # fmt: skip
        for process in self.started:
            self.processes.add(process.pid)

    def meet(self) -> None:
        """Wait until all parties are at the gate, each with its first round (a warm-up) done."""
        self.listener.settimeout(1.0)
        while len(self.parties) < self.framework.parties:
            try:
                connection, _ = self.listener.accept()
            except TimeoutError:
                ended = any(process.poll() is not None for process in self.started)
                if ended or time.monotonic() - self.began > PATIENCE:
                    raise self.failure() from None
                continue
            connection.settimeout(PATIENCE)
            self.parties.append(Party(connection))
        for party in self.parties:
            self.hear(party)
        self.let_through(1)
        for party in self.parties:
            self.hear(party)

    def turn(self, rounds: int = 1) -> list[dict[str, float]]:
        """What was measured of each of so many rounds; a round takes as long as its slowest party. The CPU time of
        the turn is shared out evenly: it says what a round costs even if the machine is busy with other things."""
        before = self.processes.cpu()
        self.go_on()
        self.let_through(rounds)
        told = [self.hear(party) for party in self.parties]
        self.pause()
        cpu = (self.processes.cpu() - before) / rounds
        return [{**max(same, key=lambda one: one["seconds"]), "cpu": cpu} for same in zip(*told, strict=True)]

    def let_through(self, rounds: int) -> None:
        try:
            for party in self.parties:
                party.let_through(rounds)
        except OSError:
            raise self.failure() from None

    def hear(self, party: Party) -> list[dict[str, float]]:
        try:
            rounds = party.rounds()
        except OSError:  # it said nothing in time, or ended while it spoke
            rounds = None
        if rounds is None:
            raise self.failure()
        return rounds

    def pause(self) -> None:
        """Stop every process: some poll while they wait, and would take the next job's time."""
        self.processes.send(signal.SIGSTOP)

    def go_on(self) -> None:
        self.processes.send(signal.SIGCONT)

    def startup(self) -> float:
        """Seconds from the start of the job to the first step of the first client."""
        return min(float(mark.read_text()) for mark in self.marks.iterdir()) - self.began

    def failure(self) -> Failed:
        lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        telling = [line for line in lines if "Error" in line or "Exception" in line] or lines
        return Failed(telling[-1][:200] if telling else "it ended without a word")

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()

    def end(self) -> None:
        """First politely, so that MPI and Ray take away the files they share memory through; then surely."""
        self.go_on()
        self.parties.clear()
        self.listener.close()
        for process in self.started:
            process.terminate()
        for process in self.started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(POLITENESS)
        self.processes.end()
        for process in self.started:
            process.wait()


def environment_of(mode: str, windows: Path) -> dict[str, str]:
    """What every process of every job finds: one thread each, the data, and the allocator as shipped or tuned."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("MALLOC_", "FEDMPI_"))}
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.getuid() == 0 else {}
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
    ours = {"PEERS_WINDOWS": str(windows), "PEERS_MODE": mode, "PYTHONPATH": str(HERE), "PYTHONUNBUFFERED": "1"}
    return {**kept, **root, **threads, **ours, **(TUNED if mode == "tuned" else {})}
