"""Which methods answer which question.

Every engine is a module with some of the functions `marginals`, `log_partition` and `most_probable`,
each of which takes (model, given, *, options of its own) and returns the same kind of result.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from conjoin.errors import ModelError, did_you_mean

ENGINES = {
    "marginals": {
        "exact": "exact",
        "bp": "belief_propagation",
        "mean_field": "mean_field",
        "gibbs": "gibbs",
    },
    "log_partition": {
        "exact": "exact",
        "bp": "belief_propagation",
        "mean_field": "mean_field",
        "ais": "ais",
    },
    "most_probable": {
        "exact": "exact",
        "ilp": "integer",
        "max_product": "belief_propagation",
        "annealing": "annealing",
        "icm": "icm",
        "viterbi": "viterbi",
    },
}
"""For each question the methods, and the module of each."""


def engine(question: str, method: str) -> Any:
    """Return the function that answers a question by a method."""
    known = ENGINES[question]
    if method not in known:
        raise ModelError(
            f"there is no method {method!r} for this question. " + did_you_mean(method, known)
        )
    return getattr(importlib.import_module(f"conjoin.inference.{known[method]}"), question)


def options_of(question: str, method: str) -> set[str]:
    """Return the names of the options that an engine has for a question."""
    return set(inspect.signature(engine(question, method)).parameters) - {"model", "given"}


def fitting(question: str, method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of some options that an engine has."""
    known = options_of(question, method) if options else set()
    return {name: value for name, value in options.items() if name in known}


def check_options(question: str, options: Mapping[str, Any]) -> None:
    """Refuse options that no engine of a question has: with "auto", the one that runs may not look."""
    known = set().union(*(options_of(question, m) for m in ENGINES[question] if options))
    for name in options:
        if name not in known:
            raise ModelError(f"there is no option {name!r}. " + did_you_mean(name, sorted(known)))
