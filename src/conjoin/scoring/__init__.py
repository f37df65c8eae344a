"""How well a network predicts a table: PLL, CMLL (the paper's Sections 2.2 and 6.2) and likelihood."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conjoin.lazy_imports import lazy_names

if TYPE_CHECKING:
    from conjoin.scoring.likelihood import LogLikelihood as LogLikelihood
    from conjoin.scoring.likelihood import log_likelihood as log_likelihood
    from conjoin.scoring.marginal_likelihood import CMLL as CMLL
    from conjoin.scoring.marginal_likelihood import cmll as cmll
    from conjoin.scoring.marginal_likelihood import random_sets as random_sets
    from conjoin.scoring.metrics import score as score
    from conjoin.scoring.pseudo_likelihood import pll as pll
    from conjoin.scoring.result import Score as Score
    from conjoin.scoring.result import compare as compare
    from conjoin.scoring.result import signed_ranks as signed_ranks

_INTERNAL = {
    "ConditionalScorer": "scoring.conditionals",
    "ConditionalBlock": "scoring.conditionals",
}
"""Names for the other packages of Conjoin, and for its tests."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _INTERNAL)
