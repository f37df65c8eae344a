"""The questions that a network can answer, by a given method or by the best one that fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from conjoin.errors import ModelError
from conjoin.inference.approximate import (
    explained,
    search,
    trusted_log_partition,
    trusted_marginals,
)
from conjoin.inference.methods import check_options, engine, fitting
from conjoin.inference.plan import MAX_MEMORY, Forecast, TooLarge
from conjoin.inference.results import (
    Assignment,
    Joint,
    LogValue,
    Marginals,
    Probability,
    Run,
)
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.network import Network


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
        The variables of interest; by default all that are not hidden.
    method : str
        "exact", "bp" (belief propagation), "mean_field", "gibbs"; "auto" is exact where that fits into
        `max_memory`, otherwise Gibbs sampling if its chains agree, or else belief propagation (mean
        field for dependency networks).
    max_memory : float
        Memory limit of exact inference, in bytes.
    **options
        Options of the engine, such as `damping` or `max_sweeps`.

    Returns
    -------
    marginals : Marginals
        A mapping of names to {state: probability}; `run` says how certain it is.

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
    check_options("marginals", options)
    if isinstance(model, DependencyNetwork):
        return trusted_marginals("mean_field", model, given, targets, options)
    try:
        return engine("marginals", "exact")(model, given, targets=targets, max_memory=max_memory)
    except TooLarge as error:
        found = trusted_marginals("bp", model, given, targets, options)
        if not found.run.exact:
            found.run = explained(found.run, error)
        return found


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
        fits, otherwise annealed importance sampling, or belief propagation if the effective sample size
        of the former is too small and the latter converges.
    max_memory : float
        Memory limit of exact inference, in bytes.
    **options
        Options of the engine, such as `chains` and `steps`.

    Examples
    --------
    >>> from conjoin import Domain, Features, MarkovNetwork
    >>> domain = Domain({"a": [0, 1], "b": [0, 1]})
    >>> mn = MarkovNetwork(domain, Features.from_terms(domain, [(0.0, {"a": 1, "b": 1})]))
    >>> log_partition(mn)  # log 4
    log Z = 1.38629 (exact)
    """
    _check(model, given)
    if method != "auto":
        if method == "exact":
            options["max_memory"] = max_memory
        return engine("log_partition", method)(model, given, **options)
    check_options("log_partition", options)
    try:
        return engine("log_partition", "exact")(model, given, max_memory=max_memory)
    except TooLarge as error:
        found = trusted_log_partition(model, given, options)
        return found if found.run.exact else replace(found, run=explained(found.run, error))


def probability(
    model: Network,
    query: Mapping[str, Any],
    given: Mapping[str, Any] | None = None,
    *,
    method: str = "auto",
    max_memory: float = MAX_MEMORY,
    **options: Any,
) -> Probability:
    """Return the probability of the states of some variables given the states of others.

    Parameters
    ----------
    model : MarkovNetwork, BayesianNetwork or DependencyNetwork
        The model.
    query : mapping
        {variable: state}.
    given : mapping, optional
        The evidence.
    method : str
        "exact", "bp", "mean_field", "ais" or "gibbs", which can also estimate rare probabilities.
        "auto" is exact where that fits; otherwise a query of one variable is answered by
        `marginals`, others by `log_partition`, and queries to a dependency network by Gibbs sampling.
    max_memory : float
        Memory limit of exact inference, in bytes.
    **options
        Options of the engine.

    Returns
    -------
    probability : Probability
        A number, with its logarithm `log`, the standard errors `error` and `log_error`, and `run`.

    Examples
    --------
    >>> from conjoin import BayesianNetwork, Domain, TableCPD
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> bn = BayesianNetwork(domain, [
    ...     TableCPD.of(domain, "rain", [], 0.2),
    ...     TableCPD.of(domain, "wet", ["rain"], {"no": 0.1, "yes": 0.9}),
    ... ])
    >>> probability(bn, {"rain": "yes"}, {"wet": "yes"})
    P(rain=yes | wet=yes) = 0.6923 (exact)
    """
    _check(model, given)
    _check(model, query)
    known = dict(given or {})
    if not isinstance(model, DependencyNetwork) and method in ("auto", "exact"):
        from conjoin.inference import exact

        try:
            return exact.probability(model, query, known, max_memory=max_memory)
        except TooLarge:
            if method == "exact":
                raise
    # States are compared by their codes: a value and the bin that holds it are the same state.
    asked, codes = model.domain.encode_partial(query), model.domain.encode_partial(known)
    open_ = {v: s for v, s in asked.items() if v not in codes}
    log, error, run = _open_probability(model, open_, known, method, max_memory, options)
    if any(codes.get(v, s) != s for v, s in asked.items()):
        log, error = -np.inf, 0.0
    return Probability(log, run, error, query, known)


def _open_probability(
    model: Network,
    query: Mapping[int, int],
    given: Mapping[str, Any],
    method: str,
    max_memory: float,
    options: dict[str, Any],
) -> tuple[float, float, Run]:
    """Return the log-probability of states of variables without evidence, its error and its run."""
    domain = model.domain
    named = {domain.names[v]: domain.variables[v].states[s] for v, s in query.items()}
    dependency = isinstance(model, DependencyNetwork)
    single = len(query) == 1 and method in ("auto", "bp", "mean_field")
    if single or (dependency and not query and method in ("auto", "mean_field")):
        asked = [*domain.observed.names, *(name for name in named if domain[name].hidden)]
        found = marginals(
            model, given, targets=asked, method=method, max_memory=max_memory, **options
        )
        p = 1.0
        for v, state in query.items():
            p = float(found.array(domain.names[v])[state])
        error = found.run.error / p if found.run.error and p > 0 else 0.0
        with np.errstate(divide="ignore"):
            return float(np.log(p)), error, found.run
    if method == "gibbs" or (method == "auto" and dependency):
        return rare_probability(model, named, given, options)
    below = log_partition(model, given, method=method, max_memory=max_memory, **options)
    above = log_partition(
        model, {**given, **named}, method=method, max_memory=max_memory, **options
    )
    error = float(np.hypot(above.error, below.error))
    return above.value - below.value, error, above.run


def rare_probability(
    model: Network, query: Mapping[str, Any], given: Mapping[str, Any], options: dict[str, Any]
) -> tuple[float, float, Run]:
    """Return a log-probability by Gibbs sampling and the chain rule, its error and its run."""
    from conjoin.inference import rare_probability as chain_rule

    if not query:
        return 0.0, 0.0, Run("gibbs", note="certain given the evidence")
    found = chain_rule.probability(model, query, given, **options)
    exact = found.log_stderr == 0 and found.value > 0
    return found.log, found.log_stderr, Run("gibbs", note="" if exact else "sampled")


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

    Hidden columns are summed out, which makes this a harder problem. Then the answer is the best
    instance found, `run` says by how much another can be better at most, and `run.exact` whether none is.

    Parameters
    ----------
    model : MarkovNetwork, BayesianNetwork or DependencyNetwork
        The model.
    given : mapping, optional
        The evidence.
    method : str
        "exact"; "ilp", an integer program, which gives a bound; "max_product"; "annealing"; "icm";
        "viterbi", for dependency networks. "auto" is exact where that fits, otherwise the better of
        integer programming and annealing; for a dependency network "viterbi" where that fits,
        otherwise "icm".
    max_memory : float
        Memory limit of exact inference, in bytes.
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
    if not set(model.domain.hidden_names) <= set(given or ()):
        if method not in ("auto", "exact"):
            raise ModelError(
                f"method={method!r} would maximise over hidden columns instead of summing over them; "
                "use method='exact', or give their states as evidence"
            )
        return engine("most_probable", "exact")(model, given, max_memory=max_memory)
    if method != "auto":
        if method in ("exact", "viterbi"):
            options["max_memory"] = max_memory
        return engine("most_probable", method)(model, given, **options)
    check_options("most_probable", options)
    first = "viterbi" if isinstance(model, DependencyNetwork) else "exact"
    try:
        return engine("most_probable", first)(model, given, max_memory=max_memory)
    except TooLarge as error:
        if first == "viterbi":
            found = engine("most_probable", "icm")(
                model, given, **fitting("most_probable", "icm", options)
            )
        else:
            found = search(model, given, options)
        return replace(found, run=explained(found.run, error))


def forecast(
    model: Network, given: Mapping[str, Any] | None = None, *, max_memory: float = MAX_MEMORY
) -> Forecast:
    """Return the time and memory that exact marginals would need, without running anything.

    Parameters
    ----------
    model : MarkovNetwork or BayesianNetwork
        The model.
    given : mapping, optional
        The evidence; only the names matter.
    max_memory : float
        In bytes; a model that needs more is rejected.
    """
    from conjoin.inference import exact

    _check(model, given)
    return exact.forecast(model, given, max_memory=max_memory)


def _check(
    model: Any, given: Mapping[str, Any] | None = None, targets: Sequence[str] | None = None
) -> None:
    if not isinstance(model, Network):
        raise ModelError(f"expected a model, not {type(model).__name__}; use `load` to read one")
    if given is not None and not isinstance(given, Mapping):
        raise ModelError(f"states must be given as a mapping {{variable: state}}, not {given!r}")
    if isinstance(targets, str):
        raise ModelError(f"targets must be a list of names; use targets=[{targets!r}]")
    if given:
        model.domain.encode_partial(given)
    for name in targets or ():
        model.domain.index(name)
