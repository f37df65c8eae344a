"""Small random networks of every kind, and a file of every format."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path

import numpy as np

import conjoin
from conjoin import (
    BayesianNetwork,
    BoostedTreesCPD,
    DependencyNetwork,
    Domain,
    Features,
    JointModel,
    LogLinearCPD,
    MarkovNetwork,
    RuleCPD,
    Table,
    TableCPD,
    TreeCPD,
    Variable,
)
from conjoin.data.mixed_table import MixedDomain
from conjoin.data.number_scale import NumberScale
from conjoin.formats.libra_reading import write_schema
from conjoin.formats.uai import write_evidence
from conjoin.models.gaussians import Gaussians
from conjoin.models.markov import TableFactor
from conjoin.models.mixed import REST, BinnedComponent, GaussianComponent, MixedNetwork
from conjoin.models.number_map import NumberMap

RULES = """\
[variables]
rain = ["no", "yes"]
wet = [false, true]
hose = [0, 1]

[rain]
given = ["wet"]
[[rain.table]]
when = { wet = false }
p = [0.9, 0.1]
[[rain.table]]
when = { wet = true }
p = { no = 0.3, yes = 0.7 }

[wet]
[[wet.rules]]
when = { rain = "yes", hose = [0, 1] }
p = [0.1, 0.9]
[[wet.rules]]
p = [0.7, 0.3]

[hose]
[[hose.log_odds]]
state = 1
add = -2.0
[[hose.log_odds]]
state = 1
when = { rain = "no" }
add = 1.0
"""


def random_domain(rng: np.random.Generator, most: int = 5, hidden: bool = False) -> Domain:
    """Return a few variables of two to four states; names are out of order on purpose."""
    names = [f"x{i}" for i in rng.permutation(int(rng.integers(2, most + 1)))]
    variables = [Variable(n, [f"s{k}" for k in range(int(rng.integers(2, 5)))]) for n in names]
    if hidden:
        variables.append(Variable("z", range(int(rng.integers(2, 4))), hidden=True))
    return Domain(variables)


def random_weights(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return log-values: mostly ordinary, some very strong, some impossible."""
    values = rng.normal(size=shape) * rng.choice([0.5, 3.0, 40.0], p=[0.7, 0.2, 0.1])
    zeros = rng.random(shape) < rng.choice([0.0, 0.25], p=[0.7, 0.3])
    if zeros.all():
        zeros.flat[0] = False
    return np.where(zeros, -np.inf, values)


def random_markov_network(rng: np.random.Generator, hidden: bool | None = None) -> MarkovNetwork:
    """Return a network of tables and features, sometimes with a hidden column."""
    domain = random_domain(rng, hidden=rng.random() < 0.3 if hidden is None else hidden)
    factors = []
    for _ in range(int(rng.integers(1, 4))):
        size = min(len(domain), int(rng.integers(1, 4)))
        scope = tuple(rng.choice(len(domain), size, replace=False).tolist())
        shape = tuple(domain.cards[list(scope)].tolist())
        factors.append(TableFactor(scope, random_weights(rng, shape)))
    terms = []
    for _ in range(int(rng.integers(0, 6))):
        chosen = [v for v in domain if rng.random() < 0.5]
        when = {v.name: {v.states[int(rng.integers(len(v)))]} for v in chosen}
        terms.append((float(rng.normal() * 2), when))
    return MarkovNetwork(domain, Features.from_terms(domain, terms), factors)


def random_bayesian_network(rng: np.random.Generator) -> BayesianNetwork:
    """Return a network of tables, some of whose entries are zero."""
    domain = random_domain(rng)
    order = rng.permutation(len(domain))
    cpds = []
    for place, target in enumerate(order.tolist()):
        parents = [int(p) for p in order[:place] if rng.random() < 0.5][:3]
        shape = [int(domain.cards[v]) for v in (*parents, target)]
        table = rng.random(shape) * (rng.random(shape) > 0.2) + 1e-12
        table[table < 1e-6] = 0
        table[..., 0] += table.sum(axis=-1) == 0
        with np.errstate(divide="ignore"):
            cpds.append(
                TableCPD(
                    domain.cards, target, parents, np.log(table / table.sum(-1, keepdims=True))
                )
            )
    return BayesianNetwork(domain, cpds)


def dependency_network() -> DependencyNetwork:
    """Return a network with a CPD of every kind."""
    domain = Domain({name: ["no", "yes"] for name in ("a", "b", "c", "d", "e")})
    return DependencyNetwork(domain, [
        TableCPD.of(domain, "a", ["b"], {"no": 0.2, "yes": 0.7}),
        TreeCPD.of(domain, "b", ("a", {"no": 0.1, "yes": ("c", {"no": 0.5, "yes": 0.25})})),
        RuleCPD.of(domain, "c", [({"a": "yes"}, 0.9), ({}, 0.3)]),
        BoostedTreesCPD.of(domain, "d", [[0.0, 1.0], ("a", {"no": [0, 0], "yes": [0.0, -2.0]})]),
        LogLinearCPD.of(domain, "e", [(1.5, {"e": "yes", "a": "yes", "d": "no"})]),
    ])  # fmt: skip


@cache
def small_estimator() -> JointModel:
    """Return a `JointModel` of a category, a number and a date, fitted to 60 rows."""
    rng = np.random.default_rng(0)
    size = rng.normal(170, 10, 60).round()
    day = np.datetime64("2024-01-01") + rng.integers(0, 90, 60)
    rows = [
        [str(rng.choice(["red", "blue"])), float(x), str(d)] for x, d in zip(size, day, strict=True)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return JointModel(random_state=0).fit(np.array(rows, object))


def write_examples(folder: Path) -> list[Path]:
    """Write a valid file of every format; return their paths."""
    rng = np.random.default_rng(0)
    markov = random_markov_network(rng, hidden=False)
    bayes = random_bayesian_network(rng)
    conditionals = dependency_network()
    for name in ("markov.conjoin", "markov.mn", "markov.uai", "markov.conjoin.gz"):
        conjoin.save(markov, folder / name)
    hidden, mixed = random_markov_network(rng, hidden=True), random_mixed_network(rng)
    for name in ("hidden.conjoin", "hidden.uai", "hidden.conjoin.gz"):
        conjoin.save(hidden, folder / name)
    for name in ("mixed.conjoin", "mixed.conjoin.gz"):
        conjoin.save(mixed, folder / name)
    small_estimator().save(folder / "estimator.conjoin")
    for name in ("conditionals.conjoin", "conditionals.dn", "conditionals.dn.gz"):
        conjoin.save(conditionals, folder / name)
    for name in ("bayes.bn", "bayes.uai", "bayes.conjoin"):
        conjoin.save(bayes, folder / name)
    (folder / "rules.toml").write_text(RULES, encoding="utf-8")
    (folder / "small.bif").write_text(BIF, encoding="utf-8")
    codes = rng.integers(0, 2, (30, 4)).astype(np.uint8)
    codes[rng.random(codes.shape) < 0.1] = 255
    domain = Domain({name: ["no", "yes"] for name in "abcd"})
    conjoin.write_table(Table(domain, codes, rng.random(30)), folder / "weighted.data")
    for name in ("table.csv", "table.csv.gz", "table.parquet", "table.data"):
        conjoin.write_table(Table(domain, codes), folder / name)
    write_schema(domain, folder / "table.schema")
    write_evidence({"a": "yes"}, domain, folder / "some.uai.evid")
    return sorted(path for path in folder.iterdir() if not path.name.endswith(".names.json"))


BIF = """\
network test {}
variable rain { type discrete [ 2 ] { no, yes }; }
variable wet { type discrete [ 3 ] { dry, damp, "soaking wet" }; }
probability ( rain ) { table 0.8, 0.2; }
probability ( wet | rain ) {
  (no) 0.9, 0.08, 0.02;
  default 0.1, 0.3, 0.6; // when it rains
}
"""


def random_mixed_network(rng: np.random.Generator) -> MixedNetwork:
    """Return a small network of categories and numbers: some with atoms, one or two components."""
    names = rng.permutation(["a", "b", "p", "q", "r"]).tolist()
    kept = [n for n in "pqr" if rng.random() < 0.7] or ["p"]
    shown = [n for n in "ab" if rng.random() < 0.8]
    categories = [Variable(n, [f"s{k}" for k in range(int(rng.integers(2, 4)))]) for n in shown]
    maps = [_random_map(rng) for _ in kept]
    scales = tuple(NumberScale(n, "number", True, 1.0, 0.0, 20.0) for n in kept)
    order = tuple(n for n in names if n in (*kept, *shown))
    domain = MixedDomain(Domain(categories), scales, order)
    parts: list[GaussianComponent | BinnedComponent] = []
    kind = rng.integers(3)
    if kind != 1:
        parts.append(_random_gaussians(rng, categories, kept, maps))
    if kind != 0:
        parts.append(_random_bins(rng, categories, kept, maps))
    shares = rng.dirichlet(np.ones(len(parts)))
    return MixedNetwork(domain, tuple(maps), tuple(parts), shares)


def _random_map(rng: np.random.Generator) -> NumberMap:
    inner = np.sort(rng.choice(np.arange(1, 20), 5, replace=False)) + 0.5
    scores = np.sort(rng.normal(0, 1.5, 7)) + np.arange(7) * 0.05
    atoms = np.sort(rng.choice(np.arange(20.0), int(rng.choice([0, 1, 2])), replace=False))
    return NumberMap(np.array([-6.0, *inner, 26.0]), scores, 1.0, atoms)


def _random_gaussians(
    rng: np.random.Generator,
    categories: list[Variable],
    names: list[str],
    maps: list[NumberMap],
) -> GaussianComponent:
    count, size = int(rng.integers(1, 4)), len(names)
    own = [
        Variable(n, [*m.atoms.tolist(), REST])
        for n, m in zip(names, maps, strict=True)
        if len(m.atoms)
    ]
    hidden = Variable("(hidden)", range(count), hidden=True)
    domain = Domain([*categories, *own, hidden])
    roots = rng.normal(0, 0.7, (count, size, size))
    covariances = roots @ roots.transpose(0, 2, 1) + 0.2 * np.eye(size)
    gaussians = Gaussians(rng.normal(0, 1, (count, size)), covariances)
    return GaussianComponent(_normalised(rng, domain), gaussians)


def _random_bins(
    rng: np.random.Generator,
    categories: list[Variable],
    names: list[str],
    maps: list[NumberMap],
) -> BinnedComponent:
    cuts = tuple(
        m.to_scores(np.sort(rng.choice(np.arange(1, 19), 2, replace=False)) + 0.5) for m in maps
    )
    bins = [Variable(n, range(3 + len(m.atoms))) for n, m in zip(names, maps, strict=True)]
    return BinnedComponent(_normalised(rng, Domain([*categories, *bins])), cuts)


def _normalised(rng: np.random.Generator, domain: Domain) -> MarkovNetwork:
    """Return a random network whose log Z is 0."""
    size, cards = len(domain), domain.cards.tolist()
    whole = rng.normal(0, 1.5, cards)
    whole -= np.log(np.exp(whole).sum())
    return MarkovNetwork(domain, factors=[TableFactor(tuple(range(size)), whole)])
