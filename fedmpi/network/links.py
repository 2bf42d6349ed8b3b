"""Each client's link and device: latency ℓ_i, downlink d_i, uplink u_i, speed v_i.

Log-normal, x_i = median · exp(spread · z_i) with the four z_i ~ N(0, 1) of client i from the stream
(network.seed, "network", 0, i), or from a trace. A client's link is drawn when it is first needed, and does not
depend on the other clients.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedmpi.config import NetworkSettings
from fedmpi.data.sources.archive import read_file
from fedmpi.errors import ConfigError, DataError
from fedmpi.rng import stream

QUANTITIES = ("latency", "down", "up", "speed")
# Most clients that a message lists by number.
NAMED = 5
MOST_BYTES = 256 << 20


class Links:
    """The links of n clients: those of a trace, or those drawn so far."""

    def __init__(self, network: NetworkSettings, n: int) -> None:
        self.seed = network.seed
        self.median = np.array([network.latency, network.down, network.up, network.speed])
        self.spread = np.array([network.latency_spread, network.down_spread, network.up_spread, network.speed_spread])
        # Zeroed pages take memory only once they are written: it grows with the clients drawn, not with n.
        self.table = np.zeros((n, len(QUANTITIES)))
        self.known = np.zeros(n, np.bool_)
        if network.trace:
            self.table[:] = read_trace(network.trace, n)
            self.known[:] = True

    def of(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """(4, N) float64: ℓ_i [s], d_i [bit/s], u_i [bit/s], v_i of the clients (N,)."""
        unknown = clients[~self.known[clients]]
        if self.spread.any():
            for i in unknown.tolist():
                z = stream(self.seed, "network", client=i).standard_normal(len(QUANTITIES))
                self.table[i] = self.median * np.exp(self.spread * z)
        else:
            self.table[unknown] = self.median
        self.known[unknown] = True
        return self.table[clients].T


def read_trace(name: str, n: int) -> NDArray[np.float64]:
    """(n, 4) float64: the QUANTITIES of each client, from a CSV file whose first line names its columns.

    Columns may be in any order, and other columns are ignored. Rows of clients ≥ n are ignored too, so that one trace
    serves smaller federations.
    """
    table = np.full((n, len(QUANTITIES)), math.nan)
    try:
        content = io.BytesIO(read_file(Path(name), MOST_BYTES))
        rows = csv.DictReader(io.TextIOWrapper(content, encoding="utf-8-sig", newline=""))
        columns = rows.fieldnames or []
        missing = [column for column in ("client", *QUANTITIES) if column not in columns]
        if missing:
            raise wrong(name, f"has no column {', '.join(missing)}; its first line must name them")
        for row in rows:
            i, values = read_link(name, rows.line_num, row)
            if i < n:
                if not math.isnan(table[i, 0]):
                    raise wrong(name, f"line {rows.line_num}: client {i} has a row already")
                table[i] = values
    except (DataError, UnicodeDecodeError, csv.Error) as error:
        raise wrong(name, f"cannot be read as a CSV file: {error}") from None
    absent = np.flatnonzero(np.isnan(table[:, 0]))
    if absent.size:
        raise wrong(name, f"has no row for {clients_in_words(absent.tolist())} of the n = {n} clients")
    return table


def read_link(name: str, line: int, row: dict[str, str]) -> tuple[int, list[float]]:
    """(client, its four quantities) of one row."""
    try:
        i, values = int(row["client"]), [float(row[quantity]) for quantity in QUANTITIES]
    except (TypeError, ValueError):
        raise wrong(name, f"line {line}: must hold a client's number and four numbers") from None
    latency, *rest = values
    if i < 0 or not 0 <= latency < math.inf or not all(0 < value < math.inf for value in rest):
        raise wrong(name, f"line {line}: client and latency must be at least 0; down, up and speed above 0, all finite")
    return i, values


def clients_in_words(clients: Iterable[int]) -> str:
    """'client 3', 'clients 3, 5' or 'clients 3, 5, 6, 7, 8 and 12 more'."""
    clients = list(clients)
    more = f" and {len(clients) - NAMED} more" if len(clients) > NAMED else ""
    return f"client{'s' * (len(clients) > 1)} {', '.join(map(str, clients[:NAMED]))}{more}"


def wrong(name: str, what: str) -> ConfigError:
    return ConfigError(f"network.trace = '{name}': {what}")
