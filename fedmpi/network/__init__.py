"""The virtual network: how long each round would take over wide-area links. It is computed; nothing sleeps or sends."""

from fedmpi.network.virtual import VirtualNetwork, VirtualRound

__all__ = ["VirtualNetwork", "VirtualRound"]
