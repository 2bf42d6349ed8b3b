"""`fedmpi doctor` on two hosts: it finds the interface, the link's rate and a shared clock."""

from __future__ import annotations

import json

import pytest

from tests.support.bed import Bed
from tests.support.link import transfer_seconds


@pytest.mark.slow
def test_doctor_knows_the_link(two_hosts: Bed) -> None:
    two_hosts.rate("50mbit")
    two_hosts.fedmpi([1, 1], "doctor", "--max-size", "2", "--json", "found.json")
    found = json.loads((two_hosts.folder / "found.json").read_text())
    (line,) = found["lines"]
    assert [rank["host"] for rank in found["ranks"]] == ["node1", "node2"]
    assert line["transport"] == "TCP over eth0"
    largest = line["echoes"][-1]
    assert largest["size"] == 2 * 2**20
    assert largest["seconds"] == pytest.approx(transfer_seconds(largest["size"], "50mbit"), rel=0.1)
    # The two hosts of the bed have one clock: an offset of zero must lie within the bound.
    assert abs(found["ranks"][1]["clock_offset"]) <= found["ranks"][1]["clock_error"]
