"""The methods that answer each question.

Every engine is a module with some of the functions `marginals`, `log_partition` and `most_probable`,
each of which takes (model, given, *, own options) and returns the same kind of result.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from functools import cache
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
"""The methods of each question, and the module of each method."""


@cache
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
    """Return the options that an engine has, out of some."""
    known = options_of(question, method) if options else set()
    return {name: value for name, value in options.items() if name in known}


def check_options(question: str, options: Mapping[str, Any]) -> None:
    """Reject options that no engine has; with "auto", the engine that runs may not use them all."""
    known = set().union(*(options_of(question, m) for m in ENGINES[question] if options))
    for name in options:
        if name not in known:
            raise ModelError(f"there is no option {name!r}. " + did_you_mean(name, sorted(known)))
