"""Answers from a joint distribution: exact and approximate engines with one interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conjoin.lazy_imports import lazy_names

if TYPE_CHECKING:
    from conjoin.inference.engines import forecast as forecast
    from conjoin.inference.engines import joint_distribution as joint_distribution
    from conjoin.inference.engines import log_partition as log_partition
    from conjoin.inference.engines import marginals as marginals
    from conjoin.inference.engines import most_probable as most_probable
    from conjoin.inference.engines import probability as probability
    from conjoin.inference.sampling import samples as samples

_INTERNAL = {
    "Completion": "inference.completion",
    "ENGINES": "inference.methods",
    "JointProbabilities": "inference.results",
    "JointRows": "inference.joint_rows",
    "NumberDistributions": "inference.number_distribution",
    "Plan": "inference.plan",
    "Run": "inference.results",
    "TooLarge": "inference.plan",
    "as_markov_network": "inference.terms",
    "compiled": "inference.compilation",
    "completed": "inference.completion",
    "conditions_text": "inference.condition_text",
    "effective_size": "inference.gibbs",
    "evidence_of": "inference.evidence",
    "find_order": "inference.plan",
    "label_text": "inference.conditions",
    "mended": "inference.rule_keeping",
    "parse_conditions": "inference.condition_text",
    "row_log_joints": "inference.completion",
    "sampling_method": "inference.sampling",
    "split_r_hat": "inference.gibbs",
    "standard_error": "inference.gibbs",
    "table_diagnostics": "inference.sampling",
    "terms_of": "inference.terms",
}
"""Names for the other packages of Conjoin, and for its tests."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _INTERNAL)
