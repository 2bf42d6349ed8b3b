"""Max-min fair sharing of one link by many transfers (flows), computed exactly from event to event.

Flow i starts at time a_i, has b_i bits and can take at most r_i bit/s; the link carries C bit/s. At every instant the
active flows A have the rates

    ρ_i = min(r_i, λ)   with λ such that  Σ_{i∈A} ρ_i = C,  or λ = ∞ if  Σ_{i∈A} r_i ≤ C

so that no flow can have more without taking it from one that has no more. Long TCP transfers through one bottleneck
come close to this. Flow i ends at the e_i with ∫ ρ_i from a_i to e_i = b_i.

λ changes only when a flow begins or ends. Flows of equal r_i form a lane and always run at the same rate. A lane with
r ≤ λ runs at its own rate, so its next end is known in seconds; all other lanes run at λ, so their ends are known as
values of F = ∫ λ. Heaps find the next end, and the lanes that change sides when λ changes. Few do at each event, so N
flows cost O(N log N). (In the worst case, many rates closer together than the steps of λ, it is O(N²).)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def transfer(begin: Floats, bits: Floats, rate: Floats, capacity: float) -> Floats:
    """When each flow ends, (N,) seconds. begin, bits, rate: (N,), a_i, b_i, r_i; capacity: C, 0 = no limit."""
    if not capacity or rate.sum() <= capacity:
        ends: Floats = begin + bits / rate
        return ends
    rates, lane_of = np.unique(np.minimum(rate, capacity), return_inverse=True)
    link = FairLink(rates.tolist(), capacity)
    for i in np.argsort(begin, kind="stable").tolist():
        link.run_until(float(begin[i]))
        link.join(i, float(bits[i]), link.lanes[lane_of[i]])
    link.run_until(math.inf)
    return np.array([link.ended[i] for i in range(len(begin))])


@dataclass
class Lane:
    """The active flows of one rate r: a heap of (∫ρ at which it ends, flow).

    ∫ρ of the lane is `offset` plus F if it shares, plus r · now if it does not.
    """

    number: int
    rate: float
    ends: list[tuple[float, int]] = field(default_factory=list)
    offset: float = 0.0
    shares: bool = False
    version: int = 0


# (key, number of a lane, its version): entries of older versions of a lane are skipped.
Heap = list[tuple[float, int, int]]


class FairLink:
    """One link at the time `now`: its active flows, and when the others ended."""

    def __init__(self, rates: list[float], capacity: float) -> None:
        self.lanes = [Lane(number, rate) for number, rate in enumerate(rates)]
        self.capacity = capacity
        self.ended: dict[int, float] = {}
        self.now = 0.0
        self.fluid = 0.0  # F
        self.own = 0.0  # Σ r_i of the flows that run at their own rate
        self.sharing = 0  # how many flows run at λ
        self.own_fastest: Heap = []
        self.own_ends: Heap = []
        self.shared_slowest: Heap = []
        self.shared_ends: Heap = []

    def join(self, i: int, bits: float, lane: Lane) -> None:
        """Flow i begins now. λ can only fall, so lanes only change from their own rate to sharing."""
        heappush(lane.ends, (lane.offset + self._reading(lane) + bits, i))
        self._count(lane, 1)
        self._post(lane)
        while (fastest := self._first(self.own_fastest)) and fastest.rate * self.sharing + self.own > self.capacity:
            self._change_sides(fastest)

    def run_until(self, time: float) -> None:
        """Advance the time, and end the flows that are complete by then."""
        while (lane := self._first_to_end()) and (end := self._next_end(lane)) <= time:
            self._advance(end)
            self._end_one(lane)
        if time < math.inf:
            self._advance(time)

    @property
    def level(self) -> float:
        """λ, where some flow shares."""
        return (self.capacity - self.own) / self.sharing

    def _first_to_end(self) -> Lane | None:
        own, shared = self._first(self.own_ends), self._first(self.shared_ends)
        if own and shared:
            return min(own, shared, key=self._next_end)
        return own or shared

    def _next_end(self, lane: Lane) -> float:
        """When the lane's next flow ends, in seconds, if λ stays."""
        reading = lane.ends[0][0] - lane.offset
        if lane.shares:
            return self.now + max(0.0, reading - self.fluid) / self.level
        return max(self.now, reading / lane.rate)

    def _advance(self, time: float) -> None:
        if self.sharing:
            self.fluid += self.level * (time - self.now)
        self.now = time

    def _end_one(self, lane: Lane) -> None:
        """The lane's next flow ends now. λ can only rise, so lanes only change from sharing to their own rate."""
        self.ended[heappop(lane.ends)[1]] = self.now
        self._count(lane, -1)
        if not lane.ends:
            lane.shares = False
        self._post(lane)
        while (slowest := self._first(self.shared_slowest)) and slowest.rate * self.sharing + self.own <= self.capacity:
            self._change_sides(slowest)

    def _change_sides(self, lane: Lane) -> None:
        before = self._reading(lane)
        self._count(lane, -len(lane.ends))
        lane.shares = not lane.shares
        self._count(lane, len(lane.ends))
        lane.offset += before - self._reading(lane)
        self._post(lane)

    def _reading(self, lane: Lane) -> float:
        return self.fluid if lane.shares else lane.rate * self.now

    def _count(self, lane: Lane, flows: int) -> None:
        if lane.shares:
            self.sharing += flows
        else:
            self.own += flows * lane.rate

    def _post(self, lane: Lane) -> None:
        """Put the lane into the heaps of its side."""
        lane.version += 1
        if not lane.ends:
            return
        reading, by_end, by_rate = lane.ends[0][0] - lane.offset, self.own_ends, self.own_fastest
        end, rate = reading / lane.rate, -lane.rate
        if lane.shares:
            end, rate, by_end, by_rate = reading, lane.rate, self.shared_ends, self.shared_slowest
        heappush(by_end, (end, lane.number, lane.version))
        heappush(by_rate, (rate, lane.number, lane.version))

    def _first(self, heap: Heap) -> Lane | None:
        """The lane of the least entry that is up to date."""
        while heap:
            _, number, version = heap[0]
            if self.lanes[number].version == version:
                return self.lanes[number]
            heappop(heap)
        return None
