"""fedmpi: an MPI-based emulator of federated learning, for people who study client sampling.

Algorithm 1 of [FVKL], in its own symbols:

    θᵗ⁺¹ = θᵗ + η_g Σ_i ω_i(S_t) Δ_i,   Δ_i = θ_i − θᵗ after K local steps from θᵗ   [FVKL, eq. (3)]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

NOTATION = {
    "n": "number of clients",
    "p": "importances p_i of the clients, Σ p_i = 1",
    "m": "number of clients to draw (expected, for the schemes that vary it)",
    "S_t": "the clients drawn in round t",
    "N": "how many distinct clients S_t has",
    "omega": "ω_i(S_t): aggregation weight of client i in round t; never renormalised",
    "theta": "θ: the model's parameters, one flat float32 vector",
    "delta": "Δ_i = θ_i − θᵗ: what client i sends back",
    "K": "local SGD steps per round",
    "B": "batch size of a local step",
    "eta_l": "η_l: local learning rate",
    "eta_g": "η_g: server learning rate",
    "T": "number of rounds",
    "alpha": "α: Cov(ω_i, ω_j) = −α p_i p_j for i ≠ j",
    "Sigma": "Σ = Σ_i Var ω_i",
    "gamma": "γ = Σ + α Σ_i p_i²",
}

BIBLIOGRAPHY = {
    "FVKL": "Y. Fraboni, R. Vidal, L. Kameni, M. Lorenzi: A General Theory for Client Sampling in Federated "
    "Learning, FL-IJCAI 2022",
    "FVKL21": "Y. Fraboni, R. Vidal, L. Kameni, M. Lorenzi: Clustered Sampling, ICML 2021",
    "CHR": "W. Chen, S. Horváth, P. Richtárik: Optimal Client Sampling for Federated Learning, TMLR 2022",
    "FedProx": "T. Li et al.: Federated Optimization in Heterogeneous Networks, MLSys 2020",
    "FedNova": "J. Wang et al.: Tackling the Objective Inconsistency Problem, NeurIPS 2020",
}

if TYPE_CHECKING:
    from fedmpi.config import Config
    from fedmpi.job.start import run
    from fedmpi.record import open_record

__all__ = ["BIBLIOGRAPHY", "NOTATION", "Config", "__version__", "open_record", "run"]


def __getattr__(name: str) -> Any:
    """Import the public names on first use, so that `import fedmpi` costs nothing."""
    if name == "Config":
        from fedmpi.config import Config

        return Config
    if name == "run":
        from fedmpi.job.start import run

        return run
    if name == "open_record":
        from fedmpi.record import open_record

        return open_record
    raise AttributeError(f"module 'fedmpi' has no attribute '{name}'")
