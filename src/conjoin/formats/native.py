"""Conjoin's own model files (.conjoin): names, states, provenance and arrays.

The layout is described in docs/reference/formats.md: a magic line, the length of a JSON header, the
header, and the arrays it lists, little-endian and aligned. Nothing in it is ever executed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.domain import Domain
from conjoin.data.rules import rule_from_json, rule_to_json
from conjoin.errors import ConjoinError, FormatError
from conjoin.formats.json_labels import domain_from_json, domain_to_json
from conjoin.formats.storage import read_bytes, write_bytes
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.conditional_chain import VALUE_UNIT, BoostedConditional, ConditionalChain
from conjoin.models.cpd import CPD
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.features import Features
from conjoin.models.fine_numbers import FineNumbers, scored_columns
from conjoin.models.joint import Joint
from conjoin.models.log_linear_cpd import LogLinearCPD
from conjoin.models.markov import Factor, MarkovNetwork, TableFactor
from conjoin.models.network import Network
from conjoin.models.rule_cpd import RuleCPD
from conjoin.models.table_cpd import TableCPD
from conjoin.models.tree import Tree
from conjoin.models.tree_cpds import BoostedTreesCPD, TreeBasedCPD, TreeCPD
from conjoin.models.vocabulary import Vocabulary, full_masks, mask_words

MAGIC = b"CONJOIN\n"
VERSION = 1
ALIGN = 64
DTYPES = {
    "|u1": np.uint8, "<i2": np.int16, "<i4": np.int32, "<i8": np.int64, "<u8": np.uint64,
    "<f4": np.float32, "<f8": np.float64,
}  # fmt: skip


class _Arrays:
    """The arrays to write, numbered."""

    def __init__(self) -> None:
        self.data: list[bytes] = []
        self.entries: list[dict[str, Any]] = []
        self.size = 0

    def add(self, array: npt.NDArray[Any]) -> int:
        """Return the number of an array; what single precision can hold is stored in it."""
        if array.dtype == np.float64 and array.size:
            with np.errstate(over="ignore"):
                single = array.astype(np.float32)
            array = single if np.array_equal(array, single) else array
        little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        raw = little.tobytes()
        self.entries.append(
            {"dtype": little.dtype.str, "shape": list(array.shape), "offset": self.size}
        )
        padding = -len(raw) % ALIGN
        self.data += [raw, b"\0" * padding]
        self.size += len(raw) + padding
        return len(self.entries) - 1


def write_native(
    model: Network,
    path: Path,
    estimator: Mapping[str, Any] | None = None,
    conditionals: Network | None = None,
) -> None:
    """Write a .conjoin file.

    `estimator` and `conditionals` are what a fitted `JointModel` has besides its model: an object of
    JSON, and a dependency network. Other programs that read the file need neither.
    """
    arrays = _Arrays()
    header: dict[str, Any] = {"version": VERSION, **_pack_model(model, arrays)}
    if estimator is not None:
        header["estimator"] = dict(estimator)
        if conditionals is not None:
            header["conditionals"] = _pack_model(conditionals, arrays)
    header["arrays"] = arrays.entries
    try:
        text = json.dumps(header, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise FormatError(f"the provenance cannot be written as JSON: {error}", str(path)) from None
    text += b" " * (-(len(MAGIC) + 8 + len(text)) % ALIGN)
    write_bytes(path, b"".join([MAGIC, len(text).to_bytes(8, "little"), text, *arrays.data]))


def _pack_model(model: Network, arrays: _Arrays) -> dict[str, Any]:
    """Describe a network in types of JSON; its arrays are stored."""
    packed: dict[str, Any] = {"provenance": dict(model.provenance)}
    packed["variables"] = domain_to_json(model.domain)
    if model.rules:
        packed["rules"] = [rule_to_json(rule) for rule in model.rules]
    if isinstance(model, MarkovNetwork):
        packed["kind"] = "MN"
        packed["features"] = _pack_features(model.features, arrays)
        packed["factors"] = [_pack_factor(f, arrays) for f in model.factors]
        if isinstance(model, Joint):
            packed["joint"] = {
                "fine": None if model.fine is None else _pack_fine(model.fine, arrays),
                "chain": None if model.chain is None else _pack_chain(model.chain, arrays),
            }
    else:
        assert isinstance(model, DependencyNetwork | BayesianNetwork)
        packed["kind"] = "DN" if isinstance(model, DependencyNetwork) else "BN"
        packed["cpds"] = [_pack_cpd(c, arrays) for c in model.cpds]
    return packed


def _pack_features(features: Features, arrays: _Arrays) -> dict[str, int]:
    packed = {
        "test_var": arrays.add(features.tests.var),
        "test_mask": arrays.add(features.tests.mask),
    }
    for name in ("indptr", "indices", "weights", "off"):
        if getattr(features, name) is not None:
            packed[name] = arrays.add(getattr(features, name))
    return packed


def _pack_fine(fine: FineNumbers, arrays: _Arrays) -> dict[str, Any]:
    names = ("log_shares", "gates", "intercepts", "effects", "covariances", "log_inside")
    packed: dict[str, Any] = {name: arrays.add(getattr(fine, name)) for name in names}
    return {**packed, "names": list(fine.names)}


def _pack_chain(chain: ConditionalChain, arrays: _Arrays) -> dict[str, Any]:
    packed = [
        {
            "start": arrays.add(conditional.start),
            "ranks": arrays.add(conditional.ranks.astype(np.uint8)),
            "roots": arrays.add(conditional.roots.astype(np.int32)),
            "nodes": arrays.add(conditional.nodes.astype(np.int32)),
            "values": arrays.add(np.rint(conditional.values / VALUE_UNIT).astype(np.int16)),
        }
        for conditional in chain.conditionals
    ]
    return {"names": list(chain.names), "share": chain.share, "conditionals": packed}


def _pack_tree(tree: Tree, arrays: _Arrays) -> dict[str, int]:
    return {name: arrays.add(getattr(tree, name)) for name in ("var", "ptr", "child", "value")}


def _pack_factor(factor: Factor, arrays: _Arrays) -> dict[str, Any]:
    if isinstance(factor, TableFactor):
        return {"variables": list(factor.variables), "table": arrays.add(factor.table)}
    return {"tree": _pack_tree(factor, arrays)}


def _pack_cpd(cpd: CPD, arrays: _Arrays) -> dict[str, Any]:
    entry: dict[str, Any] = {"target": cpd.target}
    if isinstance(cpd, TableCPD):
        entry |= {"parents": list(cpd.parents), "table": arrays.add(cpd.table)}
    elif isinstance(cpd, RuleCPD):
        entry["rules"] = [
            [[var, sorted(states)] for var, states in when.items()] for when in cpd.conditions
        ]
        entry["table"] = arrays.add(cpd.table)
    elif isinstance(cpd, TreeBasedCPD):
        entry["boosted"] = isinstance(cpd, BoostedTreesCPD)
        entry["trees"] = [_pack_tree(t, arrays) for t in cpd.trees]
    else:
        entry["features"] = _pack_features(cpd.features(), arrays)
    return entry


# ---- reading ------------------------------------------------------------------------------------


class _DamageError(ConjoinError):
    """The contents of the file are inconsistent."""


def _check(condition: Any, complaint: str) -> None:
    if not condition:
        raise _DamageError(complaint)


def read_native(path: Path) -> Network:
    """Read the model of a .conjoin file."""
    return read_estimator(path)[0]


def read_estimator(
    path: Path,
) -> tuple[Network, dict[str, Any] | None, Network | None]:
    """Read a .conjoin file: its model and, if it is an estimator's, the rest (see `write_native`)."""
    data = read_bytes(path)
    if not data.startswith(MAGIC):
        raise FormatError("is not a Conjoin model file", str(path))
    try:
        header, arrays = _open(data)
        version = header.get("version")
        if version != VERSION:
            raise FormatError(
                f"has the format version {version!r}; this release reads version {VERSION}. "
                "A newer release of Conjoin may read it",
                str(path),
            )
        model, estimator = _unpack(header, arrays, str(path)), header.get("estimator")
        _check(estimator is None or isinstance(estimator, dict), "the estimator is not an object")
        listed = header.get("conditionals")
        return model, estimator, None if listed is None else _unpack(listed, arrays, str(path))
    except FormatError:
        raise
    except ConjoinError as error:
        raise FormatError(f"the file is damaged: {error}", str(path)) from None
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
        OverflowError,
    ) as error:
        text = str(error)  # it may quote the whole file
        short = f"{type(error).__name__}: {text[:80]}{'...' if len(text) > 80 else ''}"
        message = f"the file is damaged: its header is incomplete ({short})"
        raise FormatError(message, str(path)) from None


def _open(data: bytes) -> tuple[dict[str, Any], list[npt.NDArray[Any]]]:
    start = len(MAGIC) + 8
    _check(len(data) >= start, "it ends in its first bytes")
    end = start + int.from_bytes(data[len(MAGIC) : start], "little")
    _check(end <= len(data), "it ends within its header")
    header = json.loads(data[start:end].decode())
    _check(isinstance(header, dict), "its header is not an object")
    arrays = []
    for entry in header["arrays"]:
        dtype = np.dtype(DTYPES[entry["dtype"]])
        shape = tuple(entry["shape"])
        _check(all(type(n) is int and n >= 0 for n in shape), "the shape of an array is invalid")
        count = math.prod(shape)
        offset = entry["offset"]
        _check(type(offset) is int and offset >= 0, "an array has no valid offset")
        _check(end + offset + count * dtype.itemsize <= len(data), "it ends within its arrays")
        flat = np.frombuffer(data, dtype.newbyteorder("<"), count, end + offset)
        arrays.append(flat.astype(dtype, copy=False).reshape(shape))
    return header, arrays


def _unpack(header: dict[str, Any], arrays: list[npt.NDArray[Any]], path: str) -> Network:
    model = _network(header, arrays, path)
    rules = header.get("rules")
    return model if rules is None else model.with_rules(map(rule_from_json, rules))


def _network(header: dict[str, Any], arrays: list[npt.NDArray[Any]], path: str) -> Network:
    kind, provenance = header["kind"], dict(header["provenance"])
    _check(kind in ("DN", "MN", "BN"), f"there is no kind {kind!r}")
    domain = domain_from_json(header["variables"], path)
    if kind == "MN":
        features = _features(header["features"], domain, arrays)
        factors = [_factor(entry, domain, arrays) for entry in header["factors"]]
        network = MarkovNetwork(domain, features, factors, provenance)
        if "joint" not in header:
            return network
        fine, chain = header["joint"]["fine"], header["joint"]["chain"]
        return Joint(
            network,
            None if fine is None else _fine(fine, domain.observed, arrays),
            None if chain is None else _chain(chain, domain.observed, arrays),
        )
    cpds = [_cpd(entry, domain, arrays) for entry in header["cpds"]]
    if kind == "DN":
        return DependencyNetwork(domain, cpds, provenance)
    return BayesianNetwork(domain, cpds, provenance)


def _fine(entry: Any, domain: Domain, arrays: list[npt.NDArray[Any]]) -> FineNumbers:
    parts = {"log_shares": 1, "gates": 2, "intercepts": 2, "effects": 3, "covariances": 3}
    parts["log_inside"] = 1
    found = {name: _array(arrays, entry[name], np.float64, ndim) for name, ndim in parts.items()}
    for name, array in found.items():
        _check(np.isfinite(array).all(), f"the {name} of numbers are not finite")
    covariances = found["covariances"]
    _check(np.array_equal(covariances, covariances.swapaxes(1, 2)), "covariances are not symmetric")
    names = tuple(map(str, entry["names"]))
    known = len(set(names)) == len(names) and set(names) <= set(scored_columns(domain))
    _check(bool(names) and known, "the columns of numbers differ")
    try:
        np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError:
        _check(False, "a covariance is not positive")
    return FineNumbers(domain, names, **found)


def _chain(entry: Any, domain: Domain, arrays: list[npt.NDArray[Any]]) -> ConditionalChain:
    types: dict[str, tuple[type[np.generic], int]]
    types = {"ranks": (np.uint8, 1), "roots": (np.int32, 1), "nodes": (np.int32, 2)}
    conditionals = []
    for packed in entry["conditionals"]:
        parts = {
            name: _array(arrays, packed[name], dtype, ndim).astype(np.int64)
            for name, (dtype, ndim) in types.items()
        }
        values = _array(arrays, packed["values"], np.int16, 2).astype(np.float32) * VALUE_UNIT
        start = _array(arrays, packed["start"], np.float64, 1)
        conditionals.append(BoostedConditional(start=start, values=values, **parts))
    names = tuple(map(str, entry["names"]))
    _check(len(set(names)) == len(names) == len(conditionals), "the columns of a chain differ")
    return ConditionalChain(domain, names, tuple(conditionals), float(entry["share"]))


def _array(
    arrays: list[npt.NDArray[Any]], number: Any, dtype: type[np.generic], ndim: int
) -> npt.NDArray[Any]:
    _check(type(number) is int and 0 <= number < len(arrays), "an array is missing")
    array = arrays[number]
    if dtype is np.float64 and array.dtype == np.float32:
        array = array.astype(np.float64)
    _check(array.dtype == dtype and array.ndim == ndim, "an array has another type or shape")
    return array


def _variable(value: Any, domain: Domain) -> int:
    _check(type(value) is int and 0 <= value < len(domain), f"there is no variable {value!r}")
    return int(value)


def _features(entry: Any, domain: Domain, arrays: list[npt.NDArray[Any]]) -> Features:
    cards = domain.cards
    var = _array(arrays, entry["test_var"], np.int32, 1)
    mask = _array(arrays, entry["test_mask"], np.uint64, 2)
    indptr = _array(arrays, entry["indptr"], np.int64, 1)
    indices = _array(arrays, entry["indices"], np.int32, 1)
    weights = _array(arrays, entry["weights"], np.float64, 1)
    off = _array(arrays, entry["off"], np.float64, 1) if "off" in entry else None
    _check(mask.shape == (len(var), mask_words(cards)), "tests and their states do not match")
    _check(((var >= 0) & (var < len(cards))).all(), "a test is of an unknown variable")
    full = full_masks(cards)[var]
    _check(not (mask & ~full).any(), "a test is of an unknown state")
    _check(
        mask.any(axis=1).all() and (mask != full).any(axis=1).all(),
        "a test always holds or never does",
    )
    tests, number = Vocabulary.unique(cards, var, mask)
    _check(np.array_equal(number, np.arange(len(var))), "the tests are not in order")
    _check(len(indptr) == len(weights) + 1 and indptr[0] == 0, "features and weights do not match")
    _check((np.diff(indptr) >= 0).all() and indptr[-1] == len(indices), "features overlap")
    _check(((indices >= 0) & (indices < len(var))).all(), "a feature has an unknown test")
    if len(indices):
        later = np.ones(len(indices), bool)
        later[indptr[:-1][np.diff(indptr) > 0]] = False  # all but the first test of each feature
        rising = np.diff(var[indices], prepend=0) > 0
        _check(rising[later].all(), "the tests of a feature are not in order")
    _check_values(weights, "a weight")
    if off is not None:
        _check(len(off) == len(indices) and np.isfinite(off).all(), "off values are not numbers")
        soft = np.repeat(np.isneginf(weights), np.diff(indptr)) & (off != 0)
        _check(not soft.any(), "an impossible feature has an off value")
    return Features(tests, indptr, indices, weights, off)


def _check_values(values: npt.NDArray[Any], name: str) -> None:
    _check(not (np.isnan(values) | np.isposinf(values)).any(), f"{name} is not a number")


def _tree(entry: Any, domain: Domain, arrays: list[npt.NDArray[Any]], ndim: int) -> Tree:
    var = _array(arrays, entry["var"], np.int32, 1)
    ptr = _array(arrays, entry["ptr"], np.int32, 1)
    child = _array(arrays, entry["child"], np.int32, 1)
    value = _array(arrays, entry["value"], np.float64, ndim)
    _check(len(var) == len(ptr) > 0, "a tree has no nodes")
    _check(((var >= -1) & (var < len(domain))).all(), "a tree splits on an unknown variable")
    _check_values(value, "a leaf")
    inner, leaves = np.flatnonzero(var >= 0), np.flatnonzero(var < 0)
    ways = domain.cards[var[inner]]
    starts = ptr[inner].astype(np.int64)
    _check(
        np.array_equal(starts, np.cumsum(ways) - ways), "the branches of a tree are not in order"
    )
    _check(ways.sum() == len(child), "a split has too few branches, or too many")
    _check(
        np.array_equal(np.sort(ptr[leaves]), np.arange(len(value))),
        "leaves and their values do not match",
    )
    owner = np.repeat(inner, ways)
    _check((child > owner).all() and (child < len(var)).all(), "a tree has a cycle")
    # Every node except the root belongs to one split; several states of that split may share it.
    pairs = np.unique(np.stack([child, owner], axis=1), axis=0)[:, 0] if len(child) else child
    _check(
        np.array_equal(pairs, np.arange(1, len(var))), "a node belongs to two splits, or to none"
    )
    return Tree(var, ptr, child, value)


def _factor(entry: Any, domain: Domain, arrays: list[npt.NDArray[Any]]) -> Factor:
    if "tree" in entry:
        return _tree(entry["tree"], domain, arrays, 1)
    variables = tuple(_variable(v, domain) for v in entry["variables"])
    table = _array(arrays, entry["table"], np.float64, len(variables))
    _check_values(table, "an entry of a table")
    return TableFactor(variables, table)


def _cpd(entry: Any, domain: Domain, arrays: list[npt.NDArray[Any]]) -> CPD:
    cards, target = domain.cards, _variable(entry["target"], domain)
    if "parents" in entry:
        parents = [_variable(p, domain) for p in entry["parents"]]
        table = _array(arrays, entry["table"], np.float64, len(parents) + 1)
        _check_values(table, "an entry of a table")
        return TableCPD(cards, target, parents, table)
    if "rules" in entry:
        table = _array(arrays, entry["table"], np.float64, 2)
        _check_values(table, "an entry of a table")
        conditions = []
        for when in entry["rules"]:
            condition = {_variable(var, domain): states for var, states in when}
            for var, states in condition.items():
                known = range(int(cards[var]))
                _check(
                    all(type(s) is int and s in known for s in states),
                    "a rule names an unknown state",
                )
            conditions.append(condition)
        _check(
            table.shape == (len(conditions), cards[target]), "rules and their table do not match"
        )
        return RuleCPD(cards, target, list(zip(conditions, table, strict=True)))
    if "trees" in entry:
        trees = [_tree(t, domain, arrays, 2) for t in entry["trees"]]
        _check(len(trees) == 1 or (trees and entry["boosted"]), "a CPD has no tree, or too many")
        return (
            BoostedTreesCPD(cards, target, trees)
            if entry["boosted"]
            else TreeCPD(cards, target, trees[0])
        )
    return LogLinearCPD(target, _features(entry["features"], domain, arrays))
