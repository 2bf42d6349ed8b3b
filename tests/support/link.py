"""What a link of the bed does to bytes: headers, rate, and the kernel's counters."""

from __future__ import annotations

from dataclasses import dataclass

# Ethernet, IPv4 and TCP with timestamps, in front of at most 1448 bytes of payload: MTU 1500. 4.6 % more.
HEADERS = 14 + 20 + 32
PAYLOAD = 1500 - 20 - 32
# tbf lets this much time's worth of bytes through at once after an idle moment. Less, and a scheduling delay of the
# busy machine costs the link capacity that it never gets back.
BURST_SECONDS = 4e-3


@dataclass(frozen=True)
class Counters:
    """Bytes (headers included) and packets that a host's interface has sent, and TCP segments that it sent again."""

    sent: int
    packets: int
    repeated: int

    def __sub__(self, earlier: Counters) -> Counters:
        return Counters(self.sent - earlier.sent, self.packets - earlier.packets, self.repeated - earlier.repeated)

    @property
    def payload(self) -> int:
        """What was sent, once, without the headers; a bare acknowledgement is all header.

        On a busy machine TCP takes a late acknowledgement for a loss, and sends a full segment again.
        """
        return self.sent - HEADERS * self.packets - PAYLOAD * self.repeated


def bytes_per_second(rate: str) -> float:
    """A rate of tc's, such as 200mbit, in bytes per second."""
    for unit, bits in (("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3)):
        if rate.endswith(unit):
            return float(rate.removesuffix(unit)) * bits / 8
    raise ValueError(f"{rate}: must be a number and gbit, mbit or kbit")


def transfer_seconds(payload: float, rate: str) -> float:
    """How long the link takes for so many bytes of payload after an idle moment: headers added, tbf's burst free."""
    on_the_wire = payload * (PAYLOAD + HEADERS) / PAYLOAD
    return on_the_wire / bytes_per_second(rate) - BURST_SECONDS
