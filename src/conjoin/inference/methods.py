"""The methods that answer each question.

Every engine is a module with some of the functions `marginals`, `log_partition` and `most_probable`,
each of which takes (model, given, *, own options) and returns the same kind of result.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
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

NAMED = frozenset({"model", "query", "given", "targets", "max_memory"})
"""Arguments of engines that are no options of their own."""


@cache
def engine(question: str, method: str) -> Any:
    """Return the function that answers a question by a method."""
    known = ENGINES[question]
    if method not in known:
        raise ModelError(
            f"there is no method {method!r} for this question. " + did_you_mean(method, known)
        )
    return getattr(importlib.import_module(f"conjoin.inference.{known[method]}"), question)


@cache
def options_of(question: str, method: str) -> frozenset[str]:
    """Return the names of the options that a method has for a question; "auto" has those of all methods.

    Events are answered by `marginals`, by `log_partition`, or by Gibbs sampling of its own.
    """
    if question == "probability":
        from conjoin.inference.rare_probability import probability

        both = [q for q in ("marginals", "log_partition") if method in ("auto", *ENGINES[q])]
        of_sampling = _parameters(probability) if method in ("auto", "gibbs") else frozenset()
        return of_sampling.union(*(options_of(q, method) for q in both))
    methods = ENGINES[question] if method == "auto" else (method,)
    return frozenset().union(*(_parameters(engine(question, m)) for m in methods))


def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters) - NAMED


def fitting(question: str, method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a method has, out of some."""
    known = options_of(question, method) if options else frozenset()
    return {name: value for name, value in options.items() if name in known}


def check_options(question: str, options: Mapping[str, Any], method: str = "auto") -> None:
    """Reject options that a method does not have; with "auto", those that no method has.

    With "auto", the engine that runs may not use them all.
    """
    for name in options:
        known = sorted({*options_of(question, method), "method", "max_memory"})
        if name not in known:
            of = "" if method == "auto" else f" for method={method!r}"
            raise ModelError(f"there is no option {name!r}{of}. " + did_you_mean(name, known))
