"""Answers from a joint distribution: exact and approximate engines with one interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conjoin.lazy_imports import lazy_names

if TYPE_CHECKING:
    from conjoin.inference.engines import forecast as forecast
    from conjoin.inference.engines import joint as joint
    from conjoin.inference.engines import log_partition as log_partition
    from conjoin.inference.engines import marginals as marginals
    from conjoin.inference.engines import most_probable as most_probable
    from conjoin.inference.engines import probability as probability
    from conjoin.inference.sampling import samples as samples

_HOMES = {
    "forecast": "inference.engines",
    "joint": "inference.engines",
    "log_partition": "inference.engines",
    "marginals": "inference.engines",
    "most_probable": "inference.engines",
    "probability": "inference.engines",
    "samples": "inference.sampling",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
