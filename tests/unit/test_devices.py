"""Which rank takes which device, on clusters that are data: no GPU is needed, and none is claimed."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedmpi.client import LocalClients
from fedmpi.comm.exchanges import device_of_messages
from fedmpi.comm.hardware import RankHardware, choose_devices, placement_rows
from fedmpi.config import CommSettings, Config
from fedmpi.data import load_dataset
from fedmpi.job import devices as allocation
from fedmpi.models import make_model
from fedmpi.models.device import visible_devices

NODES, DEVICES, RANKS = range(1, 5), range(9), range(1, 17)


def names(count: int) -> tuple[str, ...]:
    return tuple(f"cuda:{k}" for k in range(count))


def cluster(
    nodes: int, devices: int, ranks: int, cyclic: bool, mask: Callable[[int, int], str | None]
) -> list[RankHardware]:
    """`ranks` ranks on `nodes` nodes of `devices` devices, one node after the other or in turn; what a rank sees
    follows from the mask of its node-local number, as torch would count it."""
    places: list[RankHardware] = []
    for rank in range(ranks):
        node = rank % nodes if cyclic else rank * nodes // ranks
        local_rank = sum(place.node == node for place in places)
        hidden = mask(devices, local_rank)
        seen = devices if hidden is None else len([name for name in hidden.split(",") if name])
        places.append(RankHardware(rank, f"node{node}", node, local_rank, names(seen), hidden))
    return places


# What the site shows to a rank, by the node's number of devices and the rank's number there.
MASKS: dict[str, Callable[[int, int], str | None]] = {
    "none": lambda devices, local_rank: None,
    "empty": lambda devices, local_rank: "",
    "all": lambda devices, local_rank: ",".join(map(str, range(devices))),
    "every other": lambda devices, local_rank: ",".join(map(str, range(1, devices, 2))),
    "backwards": lambda devices, local_rank: ", ".join(f"GPU-{k}" for k in reversed(range(devices))),
    "rotated": lambda devices, local_rank: ",".join(str((k + local_rank) % devices) for k in range(devices)),
    "one each": lambda devices, local_rank: str(local_rank % devices) if devices else "",
    "halves": lambda devices, local_rank: ",".join(
        map(str, range(devices // 2) if local_rank % 2 else range(devices // 2, devices))
    ),
}
TABLE = [(n, d, r, c) for n, d, r, c in itertools.product(NODES, DEVICES, RANKS, (False, True)) if r >= n]


def workers_of(ranks: int, server_trains: bool) -> range:
    return range(0 if server_trains or ranks == 1 else 1, ranks)


def behind(place: RankHardware, device: str) -> str:
    """The node's name for a device of this rank, or its number if there is no mask: written here anew, as an oracle."""
    k = int(device.removeprefix("cuda:"))
    return str(k) if place.mask is None else place.mask.split(",")[k].strip()


def loads_of_equals(choices: list[tuple[RankHardware, str]]) -> list[Counter[str]]:
    """How many workers have each device, for each group of workers of a node that see the same ones in any order."""
    groups: dict[tuple[int, frozenset[str]], Counter[str]] = {}
    for place, device in choices:
        if place.devices:
            seen = frozenset(behind(place, name) for name in place.devices)
            groups.setdefault((place.node, seen), Counter(dict.fromkeys(seen, 0)))[behind(place, device)] += 1
    return list(groups.values())


@pytest.mark.parametrize("server_trains", [False, True])
@pytest.mark.parametrize("mask", MASKS)
def test_choice(mask: str, server_trains: bool) -> None:
    for nodes, devices, ranks, cyclic in TABLE:
        places = cluster(nodes, devices, ranks, cyclic, MASKS[mask])
        workers = workers_of(ranks, server_trains)
        chosen = choose_devices(places, workers)
        for place, device in zip(places, chosen, strict=True):
            if place.rank not in workers:
                assert device == ""
            elif place.devices:
                assert device in place.devices
            else:
                assert device == "cpu"
        if mask == "one each" and devices:
            assert {chosen[rank] for rank in workers} == {"cuda:0"}
        for loads in loads_of_equals([(places[rank], chosen[rank]) for rank in workers]):
            assert max(loads.values()) - min(loads.values()) <= 1


def test_workers_are_dealt_out_in_turn_and_the_server_is_passed_over() -> None:
    places = cluster(2, 2, 8, False, MASKS["none"])
    dealt = ["", "cuda:0", "cuda:1", "cuda:0", "cuda:0", "cuda:1", "cuda:0", "cuda:1"]
    assert choose_devices(places, range(1, 8)) == dealt
    # Whatever the order in which the ranks are listed.
    assert choose_devices(places[::-1], range(1, 8)) == dealt[::-1]


def test_indexes_count_within_the_mask() -> None:
    places = cluster(1, 8, 4, False, lambda devices, local_rank: "5,7")
    assert choose_devices(places, range(1, 4)) == ["", "cuda:0", "cuda:1", "cuda:0"]


def test_overlapping_masks_leave_no_device_idle() -> None:
    masks = ["0,1", "0,1", "0", "1,2"]
    places = cluster(1, 3, 4, False, lambda devices, local_rank: masks[local_rank])
    # The devices 0, 1, 0, and of (1, 2) the one that nobody has.
    assert choose_devices(places, range(4)) == ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]


def test_nodes_of_the_same_name_are_two() -> None:
    places = [replace(place, host="node") for place in cluster(2, 1, 2, False, MASKS["none"])]
    assert choose_devices(places, range(2)) == ["cuda:0", "cuda:0"]
    assert len(placement_rows(places, ["cuda:0", "cuda:0"])) == 2


def test_the_table_names_the_mask() -> None:
    places = cluster(2, 2, 5, False, lambda devices, local_rank: "3" if local_rank == 1 else None)
    assert placement_rows(places, choose_devices(places, range(1, 5))) == [
        ("node0", "0", "none (server)"),
        ("node0", "1", "cuda:0 (CUDA_VISIBLE_DEVICES=3)"),
        ("node0", "2", "cuda:0"),
        ("node1", "3", "cuda:0"),
        ("node1", "4", "cuda:0 (CUDA_VISIBLE_DEVICES=3)"),
    ]


@pytest.mark.parametrize("count", [0, 3])
def test_torch_is_asked_for_what_it_sees(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    assert visible_devices() == list(names(count))


def test_crowded_ranks_are_warned_of_once(capsys: pytest.CaptureFixture[str]) -> None:
    taken = [RankHardware(rank, "a", 0, rank, (), None, cores=(0, 1), host_cores=2) for rank in range(3)]
    config = Config.load("quadratic")
    (remark,) = allocation.notes(taken, ["", "cpu", "cpu"], 1, config)
    assert remark.startswith("note: a: 3 ranks × 1 thread on 2 cores")
    assert allocation.notes(taken[:2], ["", "cpu"], 1, config) == []
    survive = config.replace({"run.on_rank_failure": "continue"})
    (told,) = allocation.notes(taken[:2], ["", "cpu"], 1, survive)
    assert "--with-ft ulfm" in told
    assert allocation.notes(taken[:1], ["cpu"], 1, survive) == []
    allocation.print_note.cache_clear()
    for _ in range(2):
        allocation.Allocation([], 1, [remark]).print_notes()
    assert capsys.readouterr().err == f"{remark}\n"


def test_staging_changes_nothing() -> None:
    """The way to a GPU and back through a buffer in between, with everything on the CPU."""
    config = Config.load("demo", {"data.n": 3, "data.samples": 30, "client.K": 2, "client.B": 8})
    theta, deltas = make_model(config).theta.numpy().copy(), []
    for staged in (False, True):
        host = LocalClients(config, load_dataset(config))
        assert host.staging is None
        if staged:
            host.staging = torch.full_like(host.theta, np.nan)
        deltas.append(np.zeros_like(theta))
        host.receive(theta)
        host.train(1, 0, deltas[-1])
    assert deltas[0].any()
    assert (deltas[0] == deltas[1]).all()


@pytest.mark.parametrize(
    ("device", "settings", "aware", "direct"),
    [
        ("cuda:1", {}, True, True),
        ("cuda:1", {}, False, False),
        ("cuda:1", {}, None, False),
        ("cuda:1", {"compression": "int8"}, True, False),
        ("cuda:1", {"exchange": "reduced"}, True, False),
        ("cpu", {}, True, False),
    ],
)
def test_mpi_is_given_a_gpu_s_memory_only_where_it_says_that_it_takes_it(
    device: str, settings: dict[str, str], aware: bool | None, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedmpi.comm.exchanges.cuda_aware", lambda: aware)
    place = torch.device(device)
    assert device_of_messages(place, CommSettings(**settings)) == (place if direct else None)
