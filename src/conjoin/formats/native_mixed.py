"""Mixed networks as parts of .conjoin files: columns, maps, components."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import FloatArray
from conjoin.data.mixed_table import MixedDomain
from conjoin.data.number_scale import NumberScale
from conjoin.formats.json_labels import domain_from_json, domain_to_json
from conjoin.models.gaussians import Gaussians
from conjoin.models.markov import MarkovNetwork
from conjoin.models.mixed import REST, BinnedComponent, GaussianComponent, MixedNetwork
from conjoin.models.number_map import NumberMap

Add = Callable[[npt.NDArray[Any]], int]
Get = Callable[[Any, int], FloatArray]
Check = Callable[[Any, str], None]


def columns_to_json(domain: MixedDomain) -> dict[str, Any]:
    """Return the columns of a table in types of JSON."""
    return {
        "categories": domain_to_json(domain.categories),
        "numbers": [asdict(scale) for scale in domain.scales],
        "names": list(domain.names),
    }


def columns_from_json(entry: Any, path: str) -> MixedDomain:
    """Undo `columns_to_json`."""
    scales = tuple(scale_from_json(one) for one in entry["numbers"])
    categories = domain_from_json(entry["categories"], path)
    return MixedDomain(categories, scales, tuple(map(str, entry["names"])))


def scale_from_json(entry: Any) -> NumberScale:
    """Return a scale from its fields."""
    step, form = entry["step"], entry["form"]
    return NumberScale(
        str(entry["name"]),
        str(entry["kind"]),
        entry["integer"] is True,
        None if step is None else float(step),
        float(entry["low"]),
        float(entry["high"]),
        None if form is None else str(form),
        entry["utc"] is True,
    )


def pack_mixed(
    model: MixedNetwork, add: Add, pack: Callable[[MarkovNetwork], dict[str, Any]]
) -> dict[str, Any]:
    """Return a mixed network in types of JSON; `add` stores an array, and `pack` describes a network."""
    components = []
    for component in model.components:
        entry: dict[str, Any] = {"network": pack(component.network)}
        if isinstance(component, GaussianComponent):
            entry["means"] = add(component.gaussians.means)
            entry["covariances"] = add(component.gaussians.covariances)
        else:
            entry["cuts"] = [add(cuts) for cuts in component.cuts]
        components.append(entry)
    maps = [
        {
            "values": add(one.values),
            "scores": add(one.scores),
            "step": one.step,
            "atoms": add(one.atoms),
        }
        for one in model.maps
    ]
    return {
        "columns": columns_to_json(model.domain),
        "maps": maps,
        "components": components,
        "shares": add(model.shares),
    }


def unpack_mixed(
    entry: Any, get: Get, unpack: Callable[[Any], MarkovNetwork], check: Check, path: str
) -> MixedNetwork:
    """Undo `pack_mixed`; `get` returns an array of floats with a number of dimensions."""
    domain = columns_from_json(entry["columns"], path)
    maps = tuple(_map(one, get, check) for one in entry["maps"])
    check(len(maps) == len(domain.scales), "maps and columns of numbers do not match")
    shares = get(entry["shares"], 1)
    check((shares >= 0).all() and abs(shares.sum() - 1) < 1e-6, "shares are not probabilities")
    components = []
    for one in entry["components"]:
        network = unpack(one["network"])
        names = set(network.domain.observed.names)
        check(set(domain.categories.names) <= names <= set(domain.names), "columns do not match")
        for variable in domain.categories:
            check(network.domain[variable.name] == variable, "states do not match")
        part = _gaussian if "means" in one else _binned
        components.append(part(one, network, domain, maps, get, check))
    return MixedNetwork(domain, maps, tuple(components), shares, dict(entry["provenance"]))


def _map(entry: Any, get: Get, check: Check) -> NumberMap:
    values, scores, atoms = (get(entry[name], 1) for name in ("values", "scores", "atoms"))
    step = float(entry["step"])
    check(len(values) == len(scores) >= 2, "a map has too few knots")
    for knots in (values, scores):
        check(np.isfinite(knots).all() and (np.diff(knots) > 0).all(), "a map does not rise")
    check(np.isfinite(step) and step > 0, "a map has no step")
    check(np.isfinite(atoms).all(), "an atom is not a number")
    return NumberMap(values, scores, step, atoms)


def _gaussian(
    entry: Any, network: MarkovNetwork, domain: MixedDomain, maps: Any, get: Get, check: Check
) -> GaussianComponent:
    means, covariances = get(entry["means"], 2), get(entry["covariances"], 3)
    hidden = network.domain.cards[network.domain.hidden]
    states, columns = int(hidden.prod()), len(domain.scales)
    check(len(hidden) == 1 and network.domain.variables[-1].hidden, "there is no hidden column")
    check(means.shape == (states, columns), "means and hidden states do not match")
    check(covariances.shape == (states, columns, columns), "covariances have another shape")
    check(np.isfinite(means).all() and np.isfinite(covariances).all(), "a Gaussian is infinite")
    check(np.array_equal(covariances, covariances.swapaxes(1, 2)), "covariances are not symmetric")
    try:
        np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError:
        check(False, "a covariance is not positive")
    for name, one in zip(sorted(domain.numeric), maps, strict=True):
        listed = name in network.domain.names
        check(listed == bool(len(one.atoms)), "atoms and states do not match")
        if listed:
            states_of = network.domain[name].states
            check(len(states_of) == len(one.atoms) + 1 and states_of[-1] == REST, "atoms differ")
    return GaussianComponent(network, Gaussians(means, covariances))


def _binned(
    entry: Any, network: MarkovNetwork, domain: MixedDomain, maps: Any, get: Get, check: Check
) -> BinnedComponent:
    cuts = tuple(get(one, 1) for one in entry["cuts"])
    check(len(cuts) == len(domain.scales), "cuts and columns do not match")
    for name, own, one in zip(sorted(domain.numeric), cuts, maps, strict=True):
        check(np.isfinite(own).all() and (np.diff(own) > 0).all(), "cuts do not rise")
        check(name in network.domain.names, "a column of numbers has no bins")
        bins = len(network.domain[name].states)
        check(bins == len(one.atoms) + len(own) + 1, "bins and cuts do not match")
    return BinnedComponent(network, cuts)
