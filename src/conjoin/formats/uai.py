"""UAI model files (.uai) and evidence (.uai.evid)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.domain import MAX_STATES, Domain
from conjoin.data.number_scale import NumberScale
from conjoin.errors import ConjoinError, DataError, FormatError
from conjoin.formats.names_files import named_domain, write_named
from conjoin.formats.storage import plain_float, read_text
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.cpd import MAX_AXES, MAX_TABLE
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.feature_tables import scope_tables
from conjoin.models.markov import Factor, MarkovNetwork, TableFactor, as_table
from conjoin.models.network import Network
from conjoin.models.table_cpd import TableCPD

SUM_TOLERANCE = 1e-5
"""Tolerance for the sums of the rows of a Bayesian network's tables."""


class _Tokens:
    """The words of a file, read one by one."""

    def __init__(self, text: str, path: str) -> None:
        self.text, self.path, self.at = text, path, 0
        self.words = text.split()

    def error(self, message: str) -> FormatError:
        """Return an error that names the line of the last word that was read."""
        lines = [n for n, line in enumerate(self.text.split("\n"), 1) for _ in line.split()]
        return FormatError(message, self.path, lines[max(0, self.at - 1)] if lines else 1)

    def word(self, wanted: str) -> str:
        if self.at >= len(self.words):
            raise self.error(f"the file ends where {wanted} is expected")
        self.at += 1
        return self.words[self.at - 1]

    def count(self, wanted: str, low: int, high: int) -> int:
        word = self.word(wanted)
        if not (word.isascii() and word.isdigit() and len(word) < 19 and low <= int(word) <= high):
            raise self.error(f"expected {wanted}, {low} to {high}, not {word[:40]!r}")
        return int(word)

    def number_of(self, scale: NumberScale) -> float:
        """Return the number or date that the next word stands for."""
        word = self.word(f"a value of {scale.name!r}")
        try:
            return scale.number(word)
        except DataError as error:
            raise self.error(str(error)) from None

    def counts(self, many: int, wanted: str, low: int, high: int) -> list[int]:
        if many > self.left:
            raise self.error(f"the file ends before all {many:,} of: {wanted}")
        return [self.count(wanted, low, high) for _ in range(many)]

    def numbers(self, many: int) -> npt.NDArray[np.float64]:
        if many > self.left:
            raise self.error(f"the file ends before the {many:,} values of this table")
        values = []
        for _ in range(many):
            word = self.word("a value")
            try:
                value = plain_float(word)
            except ValueError:
                value = np.nan
            if not 0 <= value < np.inf:
                raise self.error(
                    f"a value of a table must be a non-negative number, not {word[:40]!r}"
                )
            values.append(value)
        return np.array(values)

    @property
    def left(self) -> int:
        return len(self.words) - self.at


def read_uai(path: Path) -> Network:
    """Read a .uai file: MARKOV gives a Markov network, BAYES a Bayesian network."""
    tokens = _Tokens(read_text(path), str(path))
    kind = tokens.word("MARKOV or BAYES")
    if kind not in ("MARKOV", "BAYES"):
        raise tokens.error(f"expected MARKOV or BAYES, not {kind[:40]!r}")
    size = tokens.count("the number of variables", 0, 10**9)
    cards = np.array(tokens.counts(size, "a number of states", 1, MAX_STATES), np.int64)
    n_factors = tokens.count("the number of factors", 0, 10**9)
    scopes = []
    for _ in range(n_factors):
        length = tokens.count("the number of variables of a factor", 0, min(size, MAX_AXES))
        scope = tuple(tokens.counts(length, "a variable", 0, max(0, size - 1)))
        if len(set(scope)) != length:
            raise tokens.error(f"a factor names a variable twice: {scope}")
        scopes.append(scope)
    factors = []
    for scope in scopes:
        shape = [int(cards[v]) for v in scope]
        entries = tokens.count("the number of values of a factor", 0, 10**18)
        if entries != np.prod(shape, dtype=object):
            raise tokens.error(f"expected {np.prod(shape, dtype=object)} values, not {entries}")
        with np.errstate(divide="ignore"):
            factors.append(TableFactor(scope, np.log(tokens.numbers(entries)).reshape(shape)))
    if tokens.left:
        tokens.at += 1
        raise tokens.error("the file continues after the last table")
    domain = named_domain(path, cards)
    source = {"read_from": path.name}
    if kind == "BAYES":
        bayes = _bayesian(domain, factors, source)
        if bayes is not None:
            return bayes
    return MarkovNetwork(domain, factors=factors, provenance=source)


def _bayesian(
    domain: Domain, factors: list[TableFactor], source: dict[str, Any]
) -> BayesianNetwork | None:
    """Return the Bayesian network whose CPDs the factors are, or None if they are not CPDs."""
    cpds = {}
    for factor in factors:
        if not factor.variables:
            return None
        *parents, target = factor.variables
        if np.abs(np.exp(factor.table).sum(axis=-1) - 1).max() > SUM_TOLERANCE:
            return None
        cpds[target] = TableCPD(domain.cards, target, parents, factor.table)
    if len(cpds) != len(factors) or len(cpds) != len(domain):
        return None
    try:
        return BayesianNetwork(domain, cpds.values(), source)
    except ConjoinError:
        return None


def write_uai(model: Network, path: Path) -> None:
    """Write a .uai file: every feature and factor becomes a table."""
    if isinstance(model, BayesianNetwork):
        kind, factors = "BAYES", model.to_markov_network().factors
        tables = [_to_table(f, model.domain, path) for f in factors]
        # The format puts the target last; the variables of tree factors are sorted.
        for i, table in enumerate(tables):
            if table.variables[-1] != i:
                axis = table.variables.index(i)
                moved = np.moveaxis(table.table, axis, -1)
                order = (*(v for v in table.variables if v != i), i)
                tables[i] = TableFactor(order, moved)
    elif isinstance(model, MarkovNetwork):
        kind, tables = "MARKOV", [_to_table(f, model.domain, path) for f in model.factors]
        tables += _feature_tables(model, path)
    else:
        assert isinstance(model, DependencyNetwork)
        raise FormatError(
            "the UAI format cannot hold a dependency network; convert it first", str(path)
        )
    lines = [kind, str(len(model.domain)), " ".join(map(str, model.domain.cards)), str(len(tables))]
    lines += [" ".join(map(str, (len(t.variables), *t.variables))) for t in tables]
    for t in tables:
        top = float(t.table.max(initial=-np.inf))
        far = np.isfinite(top) and abs(top) > 700
        shift = top if far else 0.0  # exp would overflow or vanish; this only scales Z
        values = np.exp(t.table - shift).ravel().tolist()
        lines += ["", str(len(values)), " ".join(map(repr, values))]
    write_named(path, ("\n".join(lines) + "\n").encode(), model.domain)


def _check_size(scope: tuple[int, ...], domain: Domain, path: Path) -> None:
    if np.prod(domain.cards[list(scope)], dtype=float) > MAX_TABLE or len(scope) > MAX_AXES:
        raise FormatError(
            f"a factor over {len(scope)} variables is too large for a table; "
            "use .conjoin or .mn, which keep features as they are",
            str(path),
        )


def _to_table(factor: Factor, domain: Domain, path: Path) -> TableFactor:
    if not isinstance(factor, TableFactor):
        _check_size(factor.variables, domain, path)
    return as_table(factor, domain.cards)


def _feature_tables(model: MarkovNetwork, path: Path) -> list[TableFactor]:
    scopes = model.features.by_scope()
    for scope in scopes:
        _check_size(scope, model.domain, path)
    return scope_tables(model.features, list(scopes), list(scopes.values()))


def read_evidence(path: Path, domain: Domain) -> dict[str, Any]:
    """Read a .uai.evid file: {variable: state} over a model's domain.

    Both versions of the format are supported: `2 0 1 3 0`, and the older one, which starts with the
    number of samples, 1. A state is given by its number, and a number or date as it is.
    """
    text = read_text(path)
    tokens = _Tokens(text, str(path))
    words = tokens.words
    if not words:
        return {}
    first = tokens.count("the number of evidence variables", 0, 10**9)
    if first == 1 and len(words) > 1 and len(words) != 3:
        first = tokens.count("the number of evidence variables", 0, 10**9)
    given = {}
    for _ in range(first):
        at = tokens.count("a variable", 0, max(0, len(domain) - 1))
        name = domain.names[at]
        if name in domain.numeric:
            scale = domain.scale(name)
            given[name] = scale.value(tokens.number_of(scale))
            continue
        variable = domain[name]
        code = tokens.count(f"a state of variable {at}", 0, len(variable) - 1)
        given[name] = variable.states[code]
    if tokens.left:
        tokens.at += 1
        raise tokens.error("the file continues after the last piece of evidence")
    return given
