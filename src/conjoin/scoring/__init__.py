"""How well a network predicts a table: PLL and CMLL (the paper's Sections 2.2 and 6.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conjoin.lazy_imports import lazy_names

if TYPE_CHECKING:
    from conjoin.scoring.marginal_likelihood import CMLL as CMLL
    from conjoin.scoring.marginal_likelihood import cmll as cmll
    from conjoin.scoring.marginal_likelihood import random_sets as random_sets
    from conjoin.scoring.pseudo_likelihood import pll as pll
    from conjoin.scoring.result import Score as Score
    from conjoin.scoring.result import compare as compare
    from conjoin.scoring.result import signed_ranks as signed_ranks

_HOMES = {
    "CMLL": "scoring.marginal_likelihood",
    "Score": "scoring.result",
    "cmll": "scoring.marginal_likelihood",
    "compare": "scoring.result",
    "pll": "scoring.pseudo_likelihood",
    "random_sets": "scoring.marginal_likelihood",
    "signed_ranks": "scoring.result",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
