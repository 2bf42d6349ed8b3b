"""The virtual federation: how long a round would take over wide-area links. Nothing here sleeps or sends."""

from fedmpi.network.virtual import VirtualNetwork, VirtualRound

__all__ = ["VirtualNetwork", "VirtualRound"]
