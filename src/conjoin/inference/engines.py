"""The questions that a model can be asked, and the engines that answer them.

Every engine is a module with some of the functions `marginals`, `log_partition` and `most_probable`,
each of which takes (model, given, *, options of its own) and returns the same kind of result.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from conjoin.errors import ModelError, did_you_mean
from conjoin.inference.plan import MAX_MEMORY, Forecast, TooLarge
from conjoin.inference.results import Assignment, Joint, LogValue, Marginals
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.network import Network

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

GIBBS_FEATURES = 50_000
"""Chains that disagree go on for ten times as long if the model has no more features than this."""

ILP_SECONDS = 20.0
"""How long `method="auto"` looks for the most probable instance by integer programming."""

ILP_FEATURES = 20_000
"""Models of more features are not given to integer programming by `method="auto"`."""


def engine(question: str, method: str) -> Any:
    """Return the function that answers a question by a method."""
    known = ENGINES[question]
    if method not in known:
        raise ModelError(
            f"there is no method {method!r} for this question. " + did_you_mean(method, known)
        )
    return getattr(importlib.import_module(f"conjoin.inference.{known[method]}"), question)


def marginals(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    targets: Sequence[str] | None = None,
    method: str = "auto",
    max_memory: float = MAX_MEMORY,
    **options: Any,
) -> Marginals:
    """Return the distribution of each variable given evidence.

    Parameters
    ----------
    model : MarkovNetwork, BayesianNetwork or DependencyNetwork
        The model.
    given : mapping, optional
        The evidence: {variable: state}.
    targets : sequence of str, optional
        The variables that are asked for; by default all.
    method : str
        "exact", "bp" (belief propagation), "mean_field", "gibbs"; "auto" is exact where that fits into
        `max_memory`, otherwise Gibbs sampling if its chains agree, or else belief propagation (mean
        field for dependency networks).
    max_memory : float
        What exact inference may use, in bytes.
    **options
        Options of the engine, such as `damping` or `max_sweeps`.

    Returns
    -------
    marginals : Marginals
        A mapping of names to {state: probability}; `run` says how sure it is.

    Examples
    --------
    >>> from conjoin import BayesianNetwork, Domain, TableCPD
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> bn = BayesianNetwork(domain, [
    ...     TableCPD.of(domain, "rain", [], 0.2),
    ...     TableCPD.of(domain, "wet", ["rain"], {"no": 0.1, "yes": 0.9}),
    ... ])
    >>> marginals(bn, {"wet": "yes"})
    rain  no 0.3077, yes 0.6923
    wet   no 0, yes 1
    (exact)
    """
    _check(model, given, targets)
    if method != "auto":
        if method == "exact":
            options["max_memory"] = max_memory
        return engine("marginals", method)(model, given, targets=targets, **options)
    if isinstance(model, DependencyNetwork):
        return _trusted("mean_field", model, given, targets, options)
    try:
        return engine("marginals", "exact")(model, given, targets=targets, max_memory=max_memory)
    except TooLarge as error:
        found = _trusted("bp", model, given, targets, options)
        if not found.run.exact:
            found.run = _approximate(found.run, error)
        return found


def _trusted(
    other: str,
    model: Network,
    given: Mapping[str, Any] | None,
    targets: Sequence[str] | None,
    options: dict[str, Any],
) -> Marginals:
    """Return marginals of Gibbs sampling if its chains agree, else of another engine.

    Both are asked, so that the answer can say how far they are apart.
    """
    from conjoin.sampling.rules import Rules

    fixed: Marginals = engine("marginals", other)(model, given, targets=targets, **options)
    if fixed.run.exact:
        return fixed
    sampled: Marginals | None = None
    size = len(Rules.of(model).features)
    lengths = (1000, 10_000) if size <= GIBBS_FEATURES else (1000,)
    for n_samples in lengths:
        try:
            sampled = engine("marginals", "gibbs")(
                model, given, targets=targets, n_samples=n_samples, seed=options.get("seed", 0)
            )
        except ModelError:
            break  # sampling found no instance that is possible
        if sampled.run.converged:
            break
    if sampled is None:
        doubt = "; not sure: sampling found no instance that is possible to compare it with"
        fixed.run = replace(fixed.run, note=fixed.run.note + doubt)
        return fixed
    apart = max(np.abs(sampled.array(n) - fixed.array(n)).max() for n in model.domain.names)
    if sampled.run.converged or not fixed.run.converged:
        told = f"; {other} differs by up to {apart:.2g}" if sampled.run.converged else ""
        sampled.run = replace(sampled.run, note=sampled.run.note + told)
        return sampled
    doubt = f"; not sure: Gibbs chains disagree, and differ from this by up to {apart:.2g}"
    fixed.run = replace(fixed.run, note=fixed.run.note + doubt)
    return fixed


def log_partition(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    method: str = "auto",
    max_memory: float = MAX_MEMORY,
    **options: Any,
) -> LogValue:
    """Return log Z, the logarithm of the sum of the potentials of all instances.

    Parameters
    ----------
    model : MarkovNetwork or BayesianNetwork
        The model.
    given : mapping, optional
        Sum only over instances that agree with this.
    method : str
        "exact", "bp", "mean_field" or "ais" (annealed importance sampling); "auto" is exact where that
        fits, otherwise annealed importance sampling, or belief propagation if hardly a chain of the
        former counts and the latter comes to rest.
    max_memory : float
        What exact inference may use, in bytes.
    **options
        Options of the engine, such as `chains` and `steps`.

    Examples
    --------
    >>> from conjoin import Domain, Features, MarkovNetwork
    >>> domain = Domain({"a": [0, 1], "b": [0, 1]})
    >>> mn = MarkovNetwork(domain, Features.from_terms(domain, [(0.0, {"a": 1, "b": 1})]))
    >>> log_partition(mn)  # log 4
    1.38629 (exact)
    """
    _check(model, given)
    if method != "auto":
        if method == "exact":
            options["max_memory"] = max_memory
        return engine("log_partition", method)(model, given, **options)
    try:
        return engine("log_partition", "exact")(model, given, max_memory=max_memory)
    except TooLarge as error:
        found: LogValue = engine("log_partition", "ais")(model, given, **options)
        if not found.run.converged:
            other: LogValue = engine("log_partition", "bp")(model, given)
            if other.run.exact:
                return other
            if other.run.converged:
                doubt = f"; not sure: ais, of which hardly a chain counts, says {found.value:.6g}"
                found = replace(other, run=replace(other.run, note=other.run.note + doubt))
        return replace(found, run=_approximate(found.run, error))


def probability(
    model: Network,
    query: Mapping[str, Any],
    given: Mapping[str, Any] | None = None,
    *,
    method: str = "auto",
    max_memory: float = MAX_MEMORY,
    **options: Any,
) -> LogValue:
    """Return the probability of the states of some variables given those of others.

    Parameters
    ----------
    model : MarkovNetwork, BayesianNetwork or DependencyNetwork
        The model.
    query : mapping
        {variable: state}.
    given : mapping, optional
        The evidence.
    method : str
        As for `log_partition`; a query of one variable can also be answered by the methods of
        `marginals`.
    max_memory : float
        What exact inference may use, in bytes.
    **options
        Options of the engine.

    Returns
    -------
    value : LogValue
        The logarithm, with its error; `probability` is the number itself.
    """
    from conjoin.inference import exact

    _check(model, given)
    _check(model, query)
    known = dict(given or {})
    single = len(query) == 1 and not set(query) & set(known)
    if not isinstance(model, DependencyNetwork) and method in ("auto", "exact"):
        try:
            return exact.log_probability(model, query, known, max_memory=max_memory)
        except TooLarge:
            if method == "exact":
                raise
    if single and (method in ("auto", "bp", "mean_field")):
        found = marginals(model, known, method=method, max_memory=max_memory, **options)
        ((name, state),) = query.items()
        with np.errstate(divide="ignore"):
            return LogValue(float(np.log(found[name][state])), found.run)
    clash = any(name in known and known[name] != state for name, state in query.items())
    options["max_memory"] = max_memory
    below = log_partition(model, known, method=method, **options)
    if clash:
        return LogValue(-np.inf, below.run)
    above = log_partition(model, {**known, **query}, method=method, **options)
    error = float(np.hypot(above.error, below.error))
    return LogValue(above.value - below.value, above.run, error)


def joint(
    model: Network,
    targets: Sequence[str],
    given: Mapping[str, Any] | None = None,
    *,
    max_memory: float = MAX_MEMORY,
) -> Joint:
    """Return the joint distribution of a few variables given evidence, exactly.

    Parameters
    ----------
    model : MarkovNetwork or BayesianNetwork
        The model.
    targets : sequence of str
        The variables, in the order of the table's axes.
    given : mapping, optional
        The evidence.
    max_memory : float
        In bytes.
    """
    from conjoin.inference import exact

    _check(model, given, targets)
    return exact.joint(model, targets, given, max_memory=max_memory)


def most_probable(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    method: str = "auto",
    max_memory: float = MAX_MEMORY,
    **options: Any,
) -> Assignment:
    """Return the most probable instance that agrees with the evidence.

    Parameters
    ----------
    model : MarkovNetwork, BayesianNetwork or DependencyNetwork
        The model.
    given : mapping, optional
        The evidence.
    method : str
        "exact"; "ilp", an integer program, which states a bound; "max_product"; "annealing"; "icm";
        "viterbi", for dependency networks. "auto" is exact where that fits, otherwise the better of
        integer programming and annealing; of a dependency network "viterbi" where that fits,
        otherwise "icm".
    max_memory : float
        What exact inference may use, in bytes.
    **options
        Options of the engine, such as `time_limit` or `starts`.

    Examples
    --------
    >>> from conjoin import Domain, Features, MarkovNetwork
    >>> domain = Domain({"a": [0, 1], "b": [0, 1]})
    >>> mn = MarkovNetwork(domain, Features.from_terms(domain, [(1.0, {"a": 1, "b": 0})]))
    >>> most_probable(mn)
    a=1, b=0
    score 1 (exact)
    """
    _check(model, given)
    if method != "auto":
        if method in ("exact", "viterbi"):
            options["max_memory"] = max_memory
        return engine("most_probable", method)(model, given, **options)
    first = "viterbi" if isinstance(model, DependencyNetwork) else "exact"
    try:
        return engine("most_probable", first)(model, given, max_memory=max_memory)
    except TooLarge as error:
        if first == "viterbi":
            found = engine("most_probable", "icm")(model, given, **options)
        else:
            found = _search(model, given, options)
        return replace(found, run=_approximate(found.run, error))


def _search(model: Network, given: Mapping[str, Any] | None, options: dict[str, Any]) -> Assignment:
    """Anneal, and try to do better, or to prove that nothing is better, by integer programming."""
    from conjoin.inference.operands import as_markov_network

    found: Assignment = engine("most_probable", "annealing")(model, given, **options)
    size = len(as_markov_network(model).to_features().features)
    if size > ILP_FEATURES:
        return found
    try:
        proved: Assignment = engine("most_probable", "ilp")(model, given, time_limit=ILP_SECONDS)
    except ModelError:
        return found
    if proved.score >= found.score:
        return proved
    return replace(found, bound=max(found.score, proved.bound))


def forecast(
    model: Network, given: Mapping[str, Any] | None = None, *, max_memory: float = MAX_MEMORY
) -> Forecast:
    """Return the time and memory that exact marginals would take, before anything is run.

    Parameters
    ----------
    model : MarkovNetwork or BayesianNetwork
        The model.
    given : mapping, optional
        The evidence; only which variables are given matters.
    max_memory : float
        In bytes; a model that needs more is refused.
    """
    from conjoin.inference import exact

    _check(model, given)
    return exact.forecast(model, given, max_memory=max_memory)


def _check(
    model: Any, given: Mapping[str, Any] | None = None, targets: Sequence[str] | None = None
) -> None:
    if not isinstance(model, Network):
        raise ModelError(f"a model is needed, not {type(model).__name__}; `load` reads one")
    if given is not None and not isinstance(given, Mapping):
        raise ModelError(f"states are given as a mapping {{variable: state}}, not {given!r}")
    if isinstance(targets, str):
        raise ModelError(f"targets is a list of names; use targets=[{targets!r}]")
    if given:
        model.domain.encode_partial(given)
    for name in targets or ():
        model.domain.index(name)


def _approximate(run: Any, error: TooLarge) -> Any:
    """Say why the answer is not exact."""
    why = str(error).split(". Give more")[0].replace("exact inference would need", "exact needs")
    return replace(run, note=f"{run.note}; approximate, because {why}")
