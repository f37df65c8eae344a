"""Small random networks of every kind, and a file of every format."""

from __future__ import annotations

import sys
import warnings
from functools import cache
from pathlib import Path

import numpy as np

import conjoin
from conjoin import (
    BayesianNetwork,
    DependencyNetwork,
    Domain,
    Features,
    JointModel,
    MarkovNetwork,
    Table,
    TableCPD,
    Variable,
)
from conjoin.models import (
    BoostedTreesCPD,
    Joint,
    LogLinearCPD,
    RuleCPD,
    TableFactor,
    Tree,
    TreeCPD,
)

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import fine_reference as fine_reference
import random_joints as random_joints

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
    leaves = [[0.9, 0.1], [0.9, 0.1], [0.5, 0.5], [0.75, 0.25]]
    return DependencyNetwork(domain, [
        TableCPD.of(domain, "a", ["b"], {"no": 0.2, "yes": 0.7}),
        TreeCPD(domain.cards, 1, Tree.complete([0, 2], domain.cards, np.log(leaves))),
        RuleCPD.of(domain, "c", [({"a": "yes"}, 0.9), ({}, 0.3)]),
        BoostedTreesCPD(domain.cards, 3, [
            Tree.complete([], domain.cards, np.array([[0.0, 1.0]])),
            Tree.complete([0], domain.cards, np.array([[0.0, 0.0], [0.0, -2.0]])),
        ]),
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
    hidden, numbers = random_markov_network(rng, hidden=True), random_joint(rng)
    for name in ("hidden.conjoin", "hidden.uai", "hidden.conjoin.gz"):
        conjoin.save(hidden, folder / name)
    for name in ("numbers.conjoin", "numbers.conjoin.gz"):
        conjoin.save(numbers, folder / name)
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
    (folder / "table.schema").write_text("2,2,2,2\n", encoding="utf-8")
    (folder / "some.uai.evid").write_text("1 0 1\n", encoding="utf-8")
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


def random_joint(rng: np.random.Generator) -> Joint:
    """Return a small joint of states and numbers."""
    return random_joints.random_joint(rng)[0]


def random_table(rng: np.random.Generator, columns: int = 4) -> conjoin.Table:
    """Return a small table of dependent columns, sometimes with missing values or weights."""
    rows = int(rng.integers(40, 90))
    cards = rng.integers(2, 4, columns)
    if rng.random() < 0.3:
        cards[:] = 2
    hidden = rng.integers(0, 3, rows)
    codes = np.stack(
        [np.where(rng.random(rows) < 0.7, hidden % c, rng.integers(0, c, rows)) for c in cards], 1
    ).astype(np.uint8)
    if rng.random() < 0.4:
        codes[rng.random(codes.shape) < 0.1] = 255
    domain = conjoin.Domain({f"x{i}": [f"s{k}" for k in range(c)] for i, c in enumerate(cards)})
    weights = rng.random(rows) + 0.1 if rng.random() < 0.3 else None
    return conjoin.Table(domain, codes, weights)
