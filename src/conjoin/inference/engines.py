"""The questions that a network can answer, by a given method or by the best one that fits."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from conjoin.errors import DataWarning, ModelError, names_lack_of_memory
from conjoin.inference import exact
from conjoin.inference.condition_text import conditions_text
from conjoin.inference.conditions import nearest
from conjoin.inference.evidence import (
    Evidence,
    Given,
    event_of,
    evidence_of,
    no_new_marginals,
)
from conjoin.inference.fine_evidence import (
    log_evidence,
    number_event,
    row_values,
    with_fine,
    with_numbers,
)
from conjoin.inference.methods import (
    check_options,
    engine,
    explained,
    trusted_log_partition,
    trusted_marginals,
)
from conjoin.inference.plan import Forecast, TooLarge
from conjoin.inference.results import (
    Assignment,
    JointProbabilities,
    LogValue,
    Marginals,
    Probability,
    Run,
)
from conjoin.inference.soft_evidence import weighted_network, with_new_marginals
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.left_out import names_left_out
from conjoin.models.network import Network, network_of

Answer = TypeVar("Answer")


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
    model : MarkovNetwork, BayesianNetwork, DependencyNetwork or JointModel
        The model.
    given : mapping or str, optional
        The evidence: {variable: state or condition}, or text such as "rain=yes, age > 40, city in {A, B}"
        (see `conjoin.inference.condition_text`).
    targets : sequence of str, optional
        The variables of interest; by default all that are not hidden.
    method : str
        "exact", "bp" (belief propagation), "gibbs"; "auto" is exact where that fits into `max_memory`,
        otherwise Gibbs sampling if its chains agree, or else belief propagation. Dependency networks
        are sampled.
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
    check_options("marginals", options, method)
    network, known = known_of(model, given, targets)
    found = _marginals(network, known, targets, method, max_memory, options)
    return with_numbers(network_of(model), network, known, found)


def _exactly(
    question: Callable[..., Answer], method: str, model: Network, *known: Evidence, **options: Any
) -> tuple[Answer | None, TooLarge | None]:
    """Return the exact answer if the method asks for it, and why there is none if it is too large."""
    if method != "exact" and (method != "auto" or isinstance(model, DependencyNetwork)):
        return None, None
    try:
        return question(model, *known, **options), None
    except TooLarge as error:
        if method == "exact":
            raise
        return None, error


def _marginals(
    model: Network,
    known: Evidence,
    targets: Sequence[str] | None,
    method: str,
    max_memory: float | None,
    options: dict[str, Any],
) -> Marginals:
    """Return the probabilities of the states of each variable."""
    limits: dict[str, Any] = {"targets": targets, "max_memory": max_memory}
    found, why = _exactly(exact.marginals, method, model, known, **limits)
    if found is not None:
        return found
    asked = states_only(model, known, max_memory)
    if method == "auto":
        found = trusted_marginals(*asked, targets, options)
        if why and not found.run.exact:
            found.run = explained(found.run, why)
    else:
        found = engine("marginals", method)(*asked, targets=targets, **options)
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
    model : MarkovNetwork, BayesianNetwork or JointModel
        The model.
    given : mapping or str, optional
        Sum only over instances that agree with this; a likelihood per state is a factor of each instance.
    method : str
        "exact", "bp" or "ais" (annealed importance sampling); "auto" is exact where that
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
    check_options("log_partition", options, method)
    model, known = known_of(model, given)
    no_new_marginals(known)
    if method in ("auto", "exact"):
        if method == "auto" and isinstance(model, BayesianNetwork) and not len(known):
            return LogValue(0.0, Run("exact", exact=True))  # its potentials are probabilities
        try:
            return exact.log_partition(model, known, max_memory=max_memory)
        except TooLarge as error:
            if method == "exact":
                raise
            found = trusted_log_partition(*states_only(model, known, max_memory), options)
            if not found.run.exact:
                found = replace(found, run=explained(found.run, error))
    else:
        found = engine("log_partition", method)(*states_only(model, known, max_memory), **options)
    return replace(
        found,
        value=found.value + known.constant,
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
    model : MarkovNetwork, BayesianNetwork, DependencyNetwork or JointModel
        The model.
    query : mapping or str
        The event: conditions that all hold, such as {variable: state} or "age > 40, income=high".
    given : mapping or str, optional
        The evidence.
    method : str
        "exact", "bp", "ais" or "gibbs", which can also estimate rare probabilities.
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
    check_options("probability", options, method)
    network, known = known_of(model, given)
    asked = evidence_of(network.domain, query)
    warn_of_numbers(asked, event=True)
    event = event_of(network.domain, query)
    found = _number_probability(network_of(model), network, known, event, method, max_memory)
    if found is None:
        found = _probability(network, known, event, method, max_memory, options)
    found.query = dict(asked.given)
    return found


def _probability(
    model: Network, known: Evidence, event: Evidence, method: str, max_memory: float | None,
    options: dict[str, Any],
) -> Probability:  # fmt: skip
    """Return the probability of an event, which states decide."""
    from conjoin.inference.event_probability import event_probability

    found, _ = _exactly(exact.probability, method, model, event, known, max_memory=max_memory)
    if found is not None:
        return found
    fitted = _fitted(model, known, max_memory)
    log, error, run = event_probability(model, event, fitted, method, max_memory, options)
    return Probability(log, run, error, event.given, known.given)


def _number_probability(
    joint: Any, network: Network, known: Evidence, event: Evidence, method: str,
    max_memory: float | None,
) -> Probability | None:  # fmt: skip
    """Return the probability of an event that does not follow from states: of numbers within them."""
    fine = getattr(joint, "fine", None)
    if fine is None or method not in ("auto", "exact") or known.marginals:
        return None
    listed = list(event.given.items())
    name, value = listed[0] if listed else ("", None)
    if len(listed) != 1 or name not in fine.names or name in known.given:
        return _cut_probability(joint, known, event, max_memory)
    found = with_numbers(
        joint, network, known, _marginals(network, known, [name], method, None, {})
    )
    p = number_event(found[name], value)
    if p is None:
        return None
    with np.errstate(divide="ignore"):
        return Probability(float(np.log(p)), found.run, query=event.given, given=known.given)


def _cut_probability(
    model: Any, known: Evidence, event: Evidence, max_memory: float | None
) -> Probability | None:
    """Return the probability of ranges of numbers; None if there are none, or too many."""
    both = known.both(event)
    names = model.fine.names
    if not any(model.domain.names[v] in names for v in both.ranges):
        return None
    try:
        below = log_evidence(model, known, max_memory)
        if below == -np.inf:
            raise exact.impossible(known.given)
        log = (
            log_evidence(model, both, max_memory) - below if not both.is_contradictory else -np.inf
        )
    except TooLarge:
        return None
    run = exact.run_of(with_fine(model, both)[1])
    return Probability(min(log, 0.0), run, query=event.given, given=known.given)


@names_lack_of_memory
@names_left_out
def joint_distribution(
    model: Any,
    targets: Sequence[str],
    given: Given = None,
    *,
    max_memory: float | None = None,
) -> JointProbabilities:
    """Return the joint distribution of a few variables given evidence, exactly.

    Parameters
    ----------
    model : MarkovNetwork, BayesianNetwork or JointModel
        The model.
    targets : sequence of str
        The variables, in the order of the table's axes.
    given : mapping, optional
        The evidence.
    max_memory : float, optional
        In bytes; by default three quarters of the memory that is free.
    """
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
    A column of numbers has the median of its most probable interval.

    Parameters
    ----------
    model : MarkovNetwork, BayesianNetwork or JointModel
        The model.
    given : mapping, optional
        The evidence.
    method : str
        "exact" or "annealing"; "auto" is exact where that fits.
    max_memory : float, optional
        Memory limit of exact inference, in bytes; by default three quarters of the memory that is free.
    **options
        Options of the engine, such as `starts`.

    Examples
    --------
    >>> from conjoin import Domain, Features, MarkovNetwork
    >>> domain = Domain({"a": [0, 1], "b": [0, 1]})
    >>> mn = MarkovNetwork(domain, Features.from_terms(domain, [(1.0, {"a": 1, "b": 0})]))
    >>> most_probable(mn)
    a=1, b=0
    score 1 (exact)
    """
    check_options("most_probable", options, method)
    network, known = known_of(model, given)
    found = _most_probable(network, known, method, max_memory, options)
    return replace(found, states=row_values(network_of(model), known, found.states))


def _most_probable(
    model: Network, known: Evidence, method: str, max_memory: float | None, options: dict[str, Any]
) -> Assignment:
    """Return the most probable states."""
    if not set(model.domain.hidden_names) <= set(known.certain):
        if method not in ("auto", "exact"):
            raise ModelError(
                f"method={method!r} would maximise over hidden columns instead of summing over them; "
                "use method='exact', or give their states as evidence"
            )
        return exact.most_probable(model, known, max_memory=max_memory)
    why = None
    if method in ("auto", "exact"):
        try:
            return exact.most_probable(model, known, max_memory=max_memory)
        except TooLarge as error:
            if method == "exact":
                raise
            method, why = "annealing", error
    found = engine("most_probable", method)(*states_only(model, known, max_memory), **options)
    if why is not None:
        found = replace(found, run=explained(found.run, why))
    return replace(
        found,
        score=found.score + known.constant,
        bound=found.bound + known.constant,
    )


@names_left_out
def forecast(model: Any, given: Given = None, *, max_memory: float | None = None) -> Forecast:
    """Return the time and memory that exact marginals would need, without running anything.

    Parameters
    ----------
    model : MarkovNetwork, BayesianNetwork or JointModel
        The model.
    given : mapping, optional
        The evidence; only the names matter.
    max_memory : float, optional
        In bytes; by default three quarters of the memory that is free. A model that needs more is
        rejected.
    """
    model, known = known_of(model, given)
    return exact.forecast(model, known, max_memory=max_memory)


def warn_of_numbers(known: Evidence, *, event: bool = False) -> None:
    """Warn of numbers that are far outside their columns, unless of an event, or not on their grids."""
    for name, value in known.given.items():
        v = known.domain.index(name)
        numbers = known.domain.variables[v].numbers
        if numbers is None:
            continue
        scale, x = numbers.scale, known.values.get(v)
        words = conditions_text({name: value if x is None else scale.short(x)})
        if not event and scale.is_far(nearest(numbers, value) if x is None else x).all():
            warnings.warn(scale.far_words(words), DataWarning, stacklevel=4)
        elif x is not None and scale.is_between(x):
            warnings.warn(scale.between_words(words), DataWarning, stacklevel=4)


def known_of(
    model: Any, given: Given = None, targets: Sequence[str] | None = None
) -> tuple[Network, Evidence]:
    """Check the model and the names; return the network and the evidence.

    A fitted estimator, which has a method `_known`, stands for its network.
    """
    if hasattr(model, "_known"):
        network, known = model._known(given)
    elif isinstance(model, Network):
        network, known = model, evidence_of(model.domain, given)
    else:
        raise ModelError(f"expected a model, not {type(model).__name__}; use `load` to read one")
    if isinstance(targets, str):
        raise ModelError(f"targets must be a list of names; use targets=[{targets!r}]")
    for name in targets or ():
        network.domain.index(name)
    warn_of_numbers(known)
    if known.is_contradictory:
        raise exact.impossible(known.given)
    return with_fine(network, evidence_of(network.domain, known))


def _fitted(model: Network, known: Evidence, max_memory: float | None) -> Evidence:
    """Return the evidence with new marginals turned into likelihoods, which takes exact inference."""
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
    return weighted_network(model, known.likelihoods), known.certain
