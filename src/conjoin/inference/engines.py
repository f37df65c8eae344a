"""The questions that a network can answer, by a given method or by the best one that fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from conjoin.errors import ModelError, names_lack_of_memory
from conjoin.inference.approximate import (
    explained,
    search,
    trusted_log_partition,
    trusted_marginals,
)
from conjoin.inference.conditions import Condition, label_text
from conjoin.inference.evidence import (
    Evidence,
    Given,
    check_given,
    event_of,
    evidence_of,
    no_new_marginals,
)
from conjoin.inference.methods import check_options, engine, fitting
from conjoin.inference.plan import Forecast, TooLarge
from conjoin.inference.results import (
    Assignment,
    Joint,
    LogValue,
    Marginals,
    Probability,
    Run,
)
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.left_out import names_left_out
from conjoin.models.network import Network


@names_lack_of_memory
@names_left_out
def marginals(
    model: Any,
    given: Given = None,
    *,
    targets: Sequence[str] | None = None,
    method: str = "auto",
    max_memory: float | None = None,
    **options: Any,
) -> Marginals:
    """Return the distribution of each variable given evidence.

    Parameters
    ----------
    model : MarkovNetwork, BayesianNetwork, DependencyNetwork, MixedNetwork or JointModel
        The model.
    given : mapping or str, optional
        The evidence: {variable: state or condition}, or text such as "rain=yes, age > 40, city in {A, B}"
        (see `conjoin.inference.condition_text`).
    targets : sequence of str, optional
        The variables of interest; by default all that are not hidden.
    method : str
        "exact", "bp" (belief propagation), "mean_field", "gibbs"; "auto" is exact where that fits into
        `max_memory`, otherwise Gibbs sampling if its chains agree, or else belief propagation (mean
        field for dependency networks).
    max_memory : float, optional
        Memory limit of exact inference, in bytes; by default three quarters of the memory that is free.
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
    check_options("marginals", options)
    mixed, mixed_questions = with_numbers(model, given, {"method": method, **options})
    if mixed is not None:
        return mixed_questions.marginals(mixed, targets)
    model, known = known_of(model, given, targets)
    check_options("marginals", options, method)
    if method == "exact":
        return engine("marginals", "exact")(model, known, targets=targets, max_memory=max_memory)
    if method != "auto":
        found = engine("marginals", method)(
            *states_only(model, known, max_memory), targets=targets, **options
        )
        found.run = found.run.noting(known.notes)
        return found
    why: TooLarge | None = None
    if not isinstance(model, DependencyNetwork):
        try:
            return engine("marginals", "exact")(
                model, known, targets=targets, max_memory=max_memory
            )
        except TooLarge as error:
            why = error
    other = "bp" if why else "mean_field"
    asked = states_only(model, known, max_memory)
    found = trusted_marginals(other, *asked, targets, options)
    if why and not found.run.exact:
        found.run = explained(found.run, why)
    found.run = found.run.noting(known.notes)
    return found


@names_lack_of_memory
@names_left_out
def log_partition(
    model: Any,
    given: Given = None,
    *,
    method: str = "auto",
    max_memory: float | None = None,
    **options: Any,
) -> LogValue:
    """Return log Z, the logarithm of the sum of the potentials of all instances.

    Parameters
    ----------
    model : MarkovNetwork, BayesianNetwork, MixedNetwork or JointModel
        The model.
    given : mapping or str, optional
        Sum only over instances that agree with this; a likelihood per state is a factor of each instance.
    method : str
        "exact", "bp", "mean_field" or "ais" (annealed importance sampling); "auto" is exact where that
        fits, otherwise annealed importance sampling, or belief propagation if the effective sample size
        of the former is too small and the latter converges.
    max_memory : float, optional
        Memory limit of exact inference, in bytes; by default three quarters of the memory that is free.
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
    check_options("log_partition", options)
    mixed, mixed_questions = with_numbers(model, given, {"method": method, **options})
    if mixed is not None:
        return mixed_questions.log_partition(mixed)
    model, known = known_of(model, given)
    check_options("log_partition", options, method)
    no_new_marginals(known)
    if method == "exact":
        return engine("log_partition", "exact")(model, known, max_memory=max_memory)
    if method == "auto":
        if isinstance(model, BayesianNetwork) and not len(known):
            return LogValue(0.0, Run("exact", exact=True))  # its potentials are probabilities
        try:
            return engine("log_partition", "exact")(model, known, max_memory=max_memory)
        except TooLarge as error:
            found = trusted_log_partition(*states_only(model, known, max_memory), options)
            if not found.run.exact:
                found = replace(found, run=explained(found.run, error))
    else:
        found = engine("log_partition", method)(*states_only(model, known, max_memory), **options)
    return replace(
        found,
        value=found.value + known.constant,
        run=found.run.noting(known.notes),
        given=dict(known.given),
    )


@names_lack_of_memory
@names_left_out
def probability(
    model: Any,
    query: Given,
    given: Given = None,
    *,
    method: str = "auto",
    max_memory: float | None = None,
    **options: Any,
) -> Probability:
    """Return the probability of an event given evidence.

    Parameters
    ----------
    model : MarkovNetwork, BayesianNetwork, DependencyNetwork, MixedNetwork or JointModel
        The model.
    query : mapping or str
        The event: conditions that all hold, such as {variable: state} or "age > 40, income=high".
    given : mapping or str, optional
        The evidence.
    method : str
        "exact", "bp", "mean_field", "ais" or "gibbs", which can also estimate rare probabilities.
        "auto" is exact where that fits; otherwise a query of one variable is answered by
        `marginals`, others by `log_partition`, and queries to a dependency network by Gibbs sampling.
    max_memory : float, optional
        Memory limit of exact inference, in bytes; by default three quarters of the memory that is free.
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
    >>> probability(bn, "rain=yes", "wet=yes")
    P(rain=yes | wet=yes) = 0.6923 (exact)
    """
    check_options("probability", options)
    mixed, mixed_questions = with_numbers(model, given, {"method": method, **options})
    if mixed is not None:
        found: Probability = mixed_questions.probability(mixed, query)
        warn_of_between(mixed.model, found.query)
        return found
    model, known = known_of(model, given)
    check_options("probability", options, method)
    event = event_of(model.domain, query, known.numbers)
    if not isinstance(model, DependencyNetwork) and method in ("auto", "exact"):
        from conjoin.inference import exact

        try:
            return exact.probability(model, event, known, max_memory=max_memory)
        except TooLarge:
            if method == "exact":
                raise
    from conjoin.inference.events import event_probability

    fitted = _fitted(model, known, max_memory)
    log, error, run = event_probability(model, event, fitted, method, max_memory, options)
    run = run.noting(fitted.both(event).notes)
    return Probability(log, run, error, event.given, known.given)


@names_lack_of_memory
@names_left_out
def joint(
    model: Any,
    targets: Sequence[str],
    given: Given = None,
    *,
    bins: Any = None,
    max_memory: float | None = None,
) -> Joint:
    """Return the joint distribution of a few variables given evidence, exactly.

    Parameters
    ----------
    model : MarkovNetwork, BayesianNetwork, MixedNetwork or JointModel
        The model.
    targets : sequence of str
        The variables, in the order of the table's axes.
    given : mapping, optional
        The evidence.
    bins : int, or mapping, optional
        For columns of numbers: the number of ranges (5 by default), of equal probability, or {column:
        cut points}; a value at a cut point belongs to the range above it.
    max_memory : float, optional
        In bytes; by default three quarters of the memory that is free.
    """
    from conjoin.inference import exact

    if isinstance(targets, str):
        raise ModelError(f"targets must be a list of names; use targets=[{targets!r}]")
    mixed, mixed_questions = with_numbers(model, given)
    if mixed is not None:
        return mixed_questions.joint(mixed, targets, bins)
    if bins is not None:
        raise ModelError("bins are for columns of numbers, and this model has none")
    model, known = known_of(model, given, targets)
    return exact.joint(model, targets, known, max_memory=max_memory)


@names_lack_of_memory
@names_left_out
def most_probable(
    model: Any,
    given: Given = None,
    *,
    method: str = "auto",
    max_memory: float | None = None,
    **options: Any,
) -> Assignment:
    """Return the most probable instance that agrees with the evidence.

    Hidden columns are summed out, which makes this a harder problem. Then the answer is the best
    instance found, `run` says by how much another can be better at most, and `run.exact` whether none is.
    In a model with numbers it is the best row that an ascent from several starts found.

    Parameters
    ----------
    model : MarkovNetwork, BayesianNetwork, DependencyNetwork, MixedNetwork or JointModel
        The model.
    given : mapping, optional
        The evidence.
    method : str
        "exact"; "ilp", an integer program, which gives a bound; "max_product"; "annealing"; "icm";
        "viterbi", for dependency networks. "auto" is exact where that fits, otherwise the better of
        integer programming and annealing; for a dependency network "viterbi" where that fits,
        otherwise "icm".
    max_memory : float, optional
        Memory limit of exact inference, in bytes; by default three quarters of the memory that is free.
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
    check_options("most_probable", options)
    others = {name: value for name, value in options.items() if name != "starts"}
    mixed, mixed_questions = with_numbers(model, given, others)
    if mixed is not None:
        return mixed_questions.most_probable(mixed, method, **options)
    model, known = known_of(model, given)
    check_options("most_probable", options, method)
    if not set(model.domain.hidden_names) <= set(known.certain):
        if method not in ("auto", "exact"):
            raise ModelError(
                f"method={method!r} would maximise over hidden columns instead of summing over them; "
                "use method='exact', or give their states as evidence"
            )
        return engine("most_probable", "exact")(model, known, max_memory=max_memory)
    if method == "exact" or (method == "auto" and not isinstance(model, DependencyNetwork)):
        try:
            return engine("most_probable", "exact")(model, known, max_memory=max_memory)
        except TooLarge as error:
            if method == "exact":
                raise
            found = search(*states_only(model, known, max_memory), options)
            found = replace(found, run=explained(found.run, error))
    else:
        found = _searched(*states_only(model, known, max_memory), method, max_memory, options)
    return replace(
        found,
        score=found.score + known.constant,
        bound=found.bound + known.constant,
        run=found.run.noting(known.notes),
    )


def _searched(
    model: Network,
    given: Mapping[str, Any],
    method: str,
    max_memory: float | None,
    options: dict[str, Any],
) -> Assignment:
    """Search for the most probable instance; by itself, of a dependency network."""
    if method not in ("auto", "viterbi"):
        return engine("most_probable", method)(model, given, **options)
    try:
        return engine("most_probable", "viterbi")(model, given, max_memory=max_memory)
    except TooLarge as error:
        if method == "viterbi":
            raise
        settings = fitting("most_probable", "icm", options)
        found = engine("most_probable", "icm")(model, given, **settings)
        return replace(found, run=explained(found.run, error))


@names_left_out
def forecast(model: Any, given: Given = None, *, max_memory: float | None = None) -> Forecast:
    """Return the time and memory that exact marginals would need, without running anything.

    Parameters
    ----------
    model : MarkovNetwork, BayesianNetwork, MixedNetwork or JointModel
        The model.
    given : mapping, optional
        The evidence; only the names matter, and ranges of numbers.
    max_memory : float, optional
        In bytes; by default three quarters of the memory that is free. A model that needs more is
        rejected.
    """
    from conjoin.inference import exact

    mixed, mixed_questions = with_numbers(model, given)
    if mixed is not None:
        return mixed_questions.forecast(mixed, max_memory)
    model, known = known_of(model, given)
    return exact.forecast(model, known, max_memory=max_memory)


def with_numbers(
    model: Any, given: Given, options: Mapping[str, Any] | None = None
) -> tuple[Any, Any]:
    """Return a model with numbers and its evidence, and what answers for it; None for other models.

    Such models have one method, so `options` must not choose another.
    """
    if isinstance(model, Network):
        return None, None
    from conjoin.inference import mixed_questions

    check_given(given)
    mixed = mixed_questions.mixed_known(model, given)
    if mixed is not None:
        warn_of_between(mixed.model, mixed.given)
    chosen = {name: value for name, value in (options or {}).items() if name != "max_memory"}
    if chosen.get("method") in ("auto", "exact"):
        del chosen["method"]
    if mixed is not None and chosen:
        wrong = ", ".join(f"{name}={value!r}" for name, value in chosen.items())
        raise ModelError(
            f"{wrong} is for networks of states, and this model has columns of numbers; leave it out"
        )
    return mixed, mixed_questions


def warn_of_between(model: Any, given: Mapping[str, Any]) -> None:
    """Warn of known numbers in the evidence that are not on the grids of their columns."""
    for name, value in given.items():
        if name in model.domain.numeric and not isinstance(value, Condition):
            scale = model.scale(name)
            if scale.is_between(scale.number(value)):
                scale.warn_of_between(f"{label_text(name)}={value}")


def known_of(
    model: Any, given: Given = None, targets: Sequence[str] | None = None
) -> tuple[Network, Evidence]:
    """Check the model and the names; return the network and the evidence.

    A fitted estimator, which has a method `known`, stands for its network.
    """
    if hasattr(model, "known"):
        network, known = model.known(given)
    elif isinstance(model, Network):
        network, known = model, evidence_of(model.domain, given)
    else:
        raise ModelError(f"expected a model, not {type(model).__name__}; use `load` to read one")
    if isinstance(targets, str):
        raise ModelError(f"targets must be a list of names; use targets=[{targets!r}]")
    for name in targets or ():
        network.domain.index(name)
    if known.is_contradictory:
        from conjoin.inference.exact import impossible

        raise impossible(known.given)
    return network, evidence_of(network.domain, known)


def _fitted(model: Network, known: Evidence, max_memory: float | None) -> Evidence:
    """Return the evidence with new marginals turned into likelihoods, which takes exact inference."""
    if not known.marginals:
        return known
    from conjoin.inference.new_marginals import with_new_marginals

    try:
        return with_new_marginals(model, known, max_memory)
    except TooLarge as error:
        raise TooLarge(
            f"new marginals need exact inference; give likelihoods instead: {error}"
        ) from None


def states_only(
    model: Network, known: Evidence, max_memory: float | None
) -> tuple[Network, dict[str, Any]]:
    """Return a model that includes all likelihoods, and the states that are certain."""
    known = _fitted(model, known, max_memory)
    if not known.likelihoods:
        return model, known.certain
    from conjoin.inference.weighted_networks import weighted_network

    return weighted_network(model, known.likelihoods), known.certain
