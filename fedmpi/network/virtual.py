"""How long a round would take in a wide-area federation, from what it moved and computed here.

Client i has latency ℓ_i (one way), downlink d_i, uplink u_i and speed v_i (see `links`); the server sends at most
C↓ and receives at most C↑, shared max-min fairly by the clients that it serves at the same time (see `sharing`). θ is
sent to all called clients from time 0 on. Latency delays a transfer but does not lengthen it: what leaves one end at
some rate reaches the other ℓ_i later at the same rate.

    h_i = D_i + ℓ_i                     client i holds θ; D_i is the end of its flow of |θ| through C↓ from 0 on,
                                        at most at rate d_i
    c_i = h_i + s_i / v_i               its work is done; s_i: the seconds it took, or would take, on this machine
    e_i = U_i(c_i + ℓ_i)                its update has arrived; U_i(a): end of its flow through C↑ from a on, at most
                                        at rate u_i
    total = max_{i ∈ S_t} e_i           the round is synchronous: it ends with the last update

In a round of two steps (a scheme that probes), the clients in Q are called, work s'_i and send scalars first. When all
have answered, at R = max_{i∈Q} e_i, the server tells S_t, which takes ℓ_i, to do the remaining work (s_i; zero if the
probe was the training itself) and to upload:

    e_i = U_i(R + ℓ_i + s_i / v_i + ℓ_i)

Further exchanges of scalars before the draw (`optimal-approx`) cost one call and one answer each: R ← max_{i∈Q} e_i
with e_i = U_i(R + ℓ_i + ℓ_i). Calls carry no bytes; the server's own work takes no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedmpi.config import NetworkSettings
from fedmpi.network.links import Links
from fedmpi.network.sharing import Floats, transfer

Ints = NDArray[np.int64]

# The straggler of a round without one, and the prober of a round without a probe.
NOBODY = -1


@dataclass(frozen=True)
class VirtualRound:
    """The times of one round over the virtual network: total = down + compute + up, in seconds.

    The three are those of the critical client. In a round of one step that is the straggler, the client in S_t whose
    update arrives last. In a round of two steps `prober`, whose first scalar arrives last, gives `down` and the first
    part of `compute`; the straggler's further work is added to `compute`, and `up` is the rest, calls included.
    """

    total: float
    down: float
    compute: float
    straggler: int = NOBODY
    prober: int = NOBODY

    @property
    def up(self) -> float:
        return self.total - self.down - self.compute


class VirtualNetwork:
    """The links of a virtual federation of n clients, and the rounds over them."""

    def __init__(self, network: NetworkSettings, n: int) -> None:
        self.links = Links(network, n)
        self.server_down, self.server_up = network.server_down, network.server_up

    def round(
        self,
        clients: Ints,
        compute_seconds: ArrayLike,
        down_bytes: ArrayLike,
        up_bytes: ArrayLike,
        *,
        probed: Ints | None = None,
        probe_seconds: ArrayLike = 0.0,
        scalar_bytes: Sequence[int] = (8,),
    ) -> VirtualRound:
        """The round in which `clients` (N,) were drawn, were sent down_bytes each, worked compute_seconds each on
        this machine and sent up_bytes each. One number stands for all, an array (N,) for each.

        With `probed` (Q,), those clients were sent down_bytes each and worked probe_seconds each, and then sent
        scalar_bytes: one message per number. compute_seconds is then what was left to do after the draw.
        """
        if probed is None:
            return self._from_theta(clients, compute_seconds, down_bytes, up_bytes)
        first = self._from_theta(probed, probe_seconds, down_bytes, scalar_bytes[0])
        heard = first.total
        for size in scalar_bytes[1:]:
            heard = float(self._from_call(heard, probed, 0.0, size).max(initial=heard))
        if not len(clients):
            return replace(first, total=heard, straggler=NOBODY, prober=first.straggler)
        ends = self._from_call(heard, clients, compute_seconds, up_bytes)
        last = int(ends.argmax())
        compute = first.compute + float(self._work(clients, compute_seconds)[last])
        return VirtualRound(float(ends[last]), first.down, compute, int(clients[last]), first.straggler)

    def _from_theta(
        self, clients: Ints, seconds: ArrayLike, down_bytes: ArrayLike, up_bytes: ArrayLike
    ) -> VirtualRound:
        """One step: θ down, work, answers up."""
        if not len(clients):
            return VirtualRound(0.0, 0.0, 0.0)
        latency, down, up, _ = self.links.of(clients)
        begin = np.zeros(len(clients))
        held = transfer(begin, bits(down_bytes, len(clients)), down, self.server_down) + latency
        work = self._work(clients, seconds)
        ends = transfer(held + work + latency, bits(up_bytes, len(clients)), up, self.server_up)
        last = int(ends.argmax())
        return VirtualRound(float(ends[last]), float(held[last]), float(work[last]), int(clients[last]))

    def _from_call(self, called: float, clients: Ints, seconds: ArrayLike, up_bytes: ArrayLike) -> Floats:
        """When the answers to a call at time `called` arrive, (N,) seconds."""
        latency, _, up, _ = self.links.of(clients)
        begin = called + latency + self._work(clients, seconds) + latency
        return transfer(begin, bits(up_bytes, len(clients)), up, self.server_up)

    def _work(self, clients: Ints, seconds: ArrayLike) -> Floats:
        """s_i / v_i, (N,)."""
        work: Floats = np.asarray(seconds, np.float64) / self.links.of(clients)[3]
        return work


def bits(size: ArrayLike, count: int) -> Floats:
    """Eight times the bytes, for each of `count` clients: (count,) float64."""
    return np.broadcast_to(8.0 * np.asarray(size, np.float64), (count,))
