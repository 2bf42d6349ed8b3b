"""Many runs from one configuration: paired schemes, and the grid of a [sweep] table."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedmpi.client import LocalClients
from fedmpi.comm.world import World
from fedmpi.config import Config
from fedmpi.data import load_dataset
from fedmpi.errors import ConfigError, RecordError
from fedmpi.job.prepare import configured_scheme
from fedmpi.job.start import OnRound, ignore, run_job
from fedmpi.record import open_record
from fedmpi.record.schema import DONE


@dataclass(frozen=True)
class Cell:
    """One point of a sweep's grid and one seed: its schemes run as pairs, in one job, round by round."""

    configs: tuple[Config, ...]
    paths: tuple[Path, ...]
    point: str  # what the names of all records of the point begin with
    pair: tuple[Path, ...] = ()  # all records of the pair, if these are only some of them


def paired(config: Config, schemes: Sequence[str], seed: int) -> list[Config]:
    """The same run under each scheme: same θ⁰, same batches of every client in every round."""
    return [config.replace({"sampling.scheme": scheme, "run.seed": seed, **NO_SWEEP}) for scheme in schemes]


NO_SWEEP = {"sweep.cases": [], "sweep.importances": [], "sweep.alphas": [], "sweep.schemes": [], "sweep.seeds": 1}


def cells(config: Config, folder: Path) -> list[Cell]:
    """The grid of config.sweep: [n, m] × importances × α × seeds, each with all its schemes."""
    sweep = config.sweep
    points = itertools.product(
        sweep.cases or [(config.data.n, config.sampling.m)],
        sweep.importances or [config.sampling.importance],
        sweep.alphas or [config.data.alpha],
        range(config.run.seed, config.run.seed + sweep.seeds),
    )
    schemes = sweep.schemes or (config.sampling.scheme,)
    found = []
    for (n, m), importance, alpha, seed in points:
        given = list(importance) if isinstance(importance, tuple) else importance
        here = {"data.n": n, "sampling.m": m, "sampling.importance": given, "data.alpha": alpha}
        configs = paired(config.replace(here), schemes, seed)
        place = f"n{n}-m{m}-{label(importance)}" + (f"-a{alpha:g}" if sweep.alphas else "")
        point = f"{config.run.name}-{place}-"
        names = [f"{point}{file_name(scheme)}-s{seed}.h5" for scheme in schemes]
        found.append(Cell(tuple(configs), tuple(folder / name for name in names), point))
    return found


def label(importance: object) -> str:
    return file_name(importance) if isinstance(importance, str) else "given"


def file_name(text: str) -> str:
    """The name of a scheme or an importance as part of a file name: `package.module:Class` has characters that it may
    not."""
    return "".join(c if c.isalnum() or c in "-." else "_" for c in text)


def shard(grid: Sequence[Cell], text: str) -> list[Cell]:
    """The cells of share i of N, as "i/N" with i from 0: what one task of a Slurm array runs."""
    try:
        i, N = (int(part) for part in text.split("/"))
    except ValueError:
        i, N = -1, 0
    if not 0 <= i < N:
        raise ConfigError(f"--shard {text}: must be i/N with 0 ≤ i < N, such as 0/4")
    return list(grid[i::N])


def missing(grid: Sequence[Cell]) -> list[tuple[int, list[int]]]:
    """The runs that are not finished, as (cell, [run, …]); rank 0 looks, and all ranks `pick` by it."""
    runs = {
        k: [j for j, run in enumerate(zip(c.configs, c.paths, strict=True)) if not is_finished(*run)]
        for k, c in enumerate(grid)
    }
    return [(k, unfinished) for k, unfinished in runs.items() if unfinished]


def pick(grid: Sequence[Cell], chosen: Sequence[tuple[int, list[int]]]) -> list[Cell]:
    """The cells that `missing` names, each with the runs that it names."""
    picked = []
    for k, runs in chosen:
        cell = grid[k]
        configs, paths = tuple(cell.configs[j] for j in runs), tuple(cell.paths[j] for j in runs)
        picked.append(Cell(configs, paths, cell.point, cell.paths))
    return picked


def is_finished(config: Config, path: Path) -> bool:
    try:
        with open_record(path) as record:
            return record.status == DONE and record.config == config
    except (RecordError, ConfigError):
        return False


def run_cell(cell: Cell, world: World, *, debug: bool = False, on_round: OnRound = ignore) -> None:
    """**Collective.** Run a cell's schemes in one job, or resume those that were interrupted; their records have one
    pair id."""
    attributes = {"pair_id": known_pair(cell) or secrets.token_hex(8)}
    runs = cell.configs, cell.paths, world
    run_job(*runs, force=True, resume=True, debug=debug, on_round=on_round, attributes=attributes)


def known_pair(cell: Cell) -> str:
    """The pair id that an earlier job has given to a cell, if there was one."""
    for path in cell.pair:
        try:
            with open_record(path) as record:
                return str(record.attributes.get("pair_id", ""))
        except RecordError:
            continue
    return ""


def estimate(cell: Cell, workers: int) -> float:
    """Seconds a cell will take on so many workers: one client trained and evaluated here, times all of them."""
    config = cell.configs[0]
    dataset = load_dataset(config)
    clients, i = LocalClients(config, dataset), int(np.argsort(dataset.n_samples)[len(dataset.n_samples) // 2])
    delta = np.zeros(len(clients.theta), np.float32)
    short = config.replace({"client.K": min(config.client.K, 5)})
    clients.config = short
    clients.receive(delta)
    clients.train(i, 0, delta)
    per_step = clients.train(i, 0, delta).compute_time / short.client.K
    began = time.perf_counter()
    clients.evaluate([i])
    evaluation = time.perf_counter() - began
    evaluations = config.run.T // config.eval.every + 2 if config.eval.every else 0
    seconds = 0.0
    for each in cell.configs:
        drawn = float(configured_scheme(each, dataset).inclusion().sum())
        seconds += each.run.T * drawn * config.client.K * per_step + evaluations * config.data.n * evaluation
    return seconds / max(workers, 1)
