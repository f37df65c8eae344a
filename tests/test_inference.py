"""Inference: every engine through one contract, against sums over all states."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import conjoin as cj
from conjoin import (
    BayesianNetwork,
    ConjoinError,
    DependencyNetwork,
    Domain,
    Features,
    MarkovNetwork,
    TableCPD,
    Variable,
    learn_conditionals,
    read_table,
)
from conjoin.cli.main import main
from conjoin.errors import DataError, ModelError
from conjoin.formats import read_evidence
from conjoin.inference import ENGINES, TooLarge, find_order
from conjoin.models import TableFactor
from reference import all_states, log_potentials, normalized
from strategies import (
    random_bayesian_network,
    random_dependency_network,
    random_domain,
    random_markov_network,
    random_tree,
)

KINDS = ("features and factors", "hard zeros", "off values", "Bayesian", "long conjunctions")
CASES = [(kind, seed) for kind in KINDS for seed in range(6)]
MARGINALS, LOG_Z, BEST = (list(ENGINES[q]) for q in ("marginals", "log_partition", "most_probable"))


def random_model(kind, seed):
    """A model and evidence that is possible, with the log-potentials of all states."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    domain = random_domain(rng, 3, 5, 4)
    mn = random_markov_network(rng, domain)
    if kind == "hard zeros":
        tree, table = mn.factors
        values = table.table.copy()
        values[rng.random(values.shape) < 0.3] = -np.inf
        weights = np.where(rng.random(len(mn.features)) < 0.2, -np.inf, mn.features.weights)
        features = replace(mn.features, weights=weights)
        mn = MarkovNetwork(domain, features, [tree, TableFactor(table.variables, values)])
    elif kind == "off values":
        shape = mn.features.indices.shape
        off = np.where(rng.random(shape) < 0.5, rng.uniform(-0.5, 1, shape), 0.0)
        mn = MarkovNetwork(domain, replace(mn.features, off=off), mn.factors)
    elif kind == "long conjunctions":
        domain = Domain.numbered(rng.integers(2, 4, 7))
        terms = [
            (float(rng.normal()), {f"v{v}": int(rng.integers(domain.cards[v])) for v in scope})
            for scope in (range(7), range(1, 7), range(6), (0, 1), (1, 2), (2, 3), (5, 6))
        ]
        mn = MarkovNetwork(domain, Features.from_terms(domain, terms))
    model = random_bayesian_network(rng, domain) if kind == "Bayesian" else mn
    joint = model.to_markov_network() if kind == "Bayesian" else model
    states = all_states(domain)
    values = log_potentials(joint, states)
    possible = np.flatnonzero(values > -np.inf)
    if not len(possible):
        return random_model(kind, seed + 100)
    row = states[rng.choice(possible)]
    given = {
        domain.names[v]: domain.variables[v].states[row[v]]
        for v in range(len(domain))
        if rng.random() < 0.3
    }
    agree = _agreeing(domain, given, states)
    return model, given, states, np.where(agree, values, -np.inf)


def _agreeing(domain, given, states):
    agree = np.ones(len(states), bool)
    for name, state in given.items():
        agree &= states[:, domain.index(name)] == domain[name].index(state)
    return agree


def log_sum(values):
    return values.max() + np.log(np.exp(values - values.max()).sum())


def true_marginals(domain, states, values):
    p = np.exp(values - log_sum(values))
    return [
        np.array([p[states[:, v] == s].sum() for s in range(card)])
        for v, card in enumerate(domain.cards)
    ]


# ---- the contract ------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "seed"), CASES)
@pytest.mark.parametrize("method", MARGINALS)
def test_marginals_of_every_engine(method, kind, seed):
    model, given, states, values = random_model(kind, seed)
    found = cj.marginals(model, given, method=method)
    assert list(found) == list(model.domain.names) and found.run.method == method
    for variable, true in zip(
        model.domain, true_marginals(model.domain, states, values), strict=True
    ):
        p = found.array(variable.name)
        assert found[variable.name] == dict(zip(variable.states, p.tolist(), strict=True))
        assert p.sum() == pytest.approx(1, abs=1e-9) and (p >= 0).all()
        if variable.name in given:
            assert found[variable.name][given[variable.name]] == 1
        # Loopy beliefs are near; what says that it is exact is.
        limit = 1e-9 if method == "exact" else 1e-6 if found.run.exact else 0.35
        if method == "gibbs":  # zeros may part the states into islands
            limit = 1.0 if kind == "hard zeros" else 5 * found.run.error + 1e-3
        np.testing.assert_allclose(p, true, atol=limit)
    assert (method == "exact") <= found.run.exact


@pytest.mark.parametrize(("kind", "seed"), CASES)
@pytest.mark.parametrize("method", LOG_Z)
def test_log_partition_of_every_engine(method, kind, seed):
    model, given, _, values = random_model(kind, seed)
    options = {"chains": 400, "steps": 100} if method == "ais" else {}
    found = cj.log_partition(model, given, method=method, **options)
    true = log_sum(values)
    assert found.run.method == method and float(found) == found.value
    if method == "exact":
        assert found.value == pytest.approx(true, abs=1e-9)
    elif method == "ais":
        assert 0 < found.error < 0.2
        assert abs(found.value - true) < 4 * found.error
    else:
        assert found.value == pytest.approx(true, abs=1e-6 if found.run.exact else 0.5)


@pytest.mark.parametrize(("kind", "seed"), CASES)
@pytest.mark.parametrize("method", BEST)
def test_most_probable_of_every_engine(method, kind, seed):
    model, given, states, values = random_model(kind, seed)
    found = cj.most_probable(model, given, method=method)
    row = model.domain.encode(found)
    at = np.flatnonzero((states == row).all(1))[0]
    assert found.run.method == method
    assert values[at] == pytest.approx(found.score, abs=1e-9)  # it agrees with the evidence
    assert found.gap >= -1e-9
    assert found.score == pytest.approx(values.max(), abs=1e-6)


@pytest.mark.parametrize("question", ENGINES)
def test_every_engine_is_repeatable_and_told_apart(question):
    model, given, _, _ = random_model("features and factors", 1)
    for method in ENGINES[question]:
        ask = getattr(cj, question)
        assert repr(ask(model, given, method=method)) == repr(ask(model, given, method=method))
    with pytest.raises(ModelError, match="no method 'exakt'.*'exact'"):
        getattr(cj, question)(model, given, method="exakt")


@pytest.mark.parametrize("question", ENGINES)
def test_evidence_that_breaks_a_rule_by_itself_is_an_error_for_all_engines(question):
    domain = Domain({"a": [0, 1], "b": [0, 1, 2], "c": [0, 1]})
    terms = [(-np.inf, {"a": 1, "b": [1, 2]}), (0.5, {"b": 2, "c": 1})]
    mn = MarkovNetwork(domain, Features.from_terms(domain, terms))
    for method in ENGINES[question]:
        if question == "log_partition" and method == "exact":
            continue  # log 0 is a value
        with pytest.raises(ModelError, match="impossible|probability 0"):
            getattr(cj, question)(mn, {"a": 1, "b": 2}, method=method)
        getattr(cj, question)(mn, {"a": 1}, method=method)  # b may still be 0


@pytest.mark.parametrize("question", ENGINES)
def test_impossible_evidence_is_an_error(question):
    domain = Domain({"a": [0, 1], "b": [0, 1], "c": [0, 1]})
    zeros = np.array([[0.0, -np.inf], [-np.inf, 0.0]])  # a = b = c
    factors = [TableFactor((0, 1), zeros), TableFactor((1, 2), zeros)]
    mn = MarkovNetwork(domain, factors=factors)
    bn = BayesianNetwork(
        domain,
        [
            TableCPD.of(domain, "a", [], 0.5),
            TableCPD.of(domain, "b", ["a"], {0: 0.0, 1: 1.0}),
            TableCPD.of(domain, "c", ["b"], {0: 0.0, 1: 1.0}),
        ],
    )
    for model in (mn, bn):
        for method in ("auto", "bp"):
            if method not in (*ENGINES[question], "auto"):
                continue
            if question == "log_partition" and method == "auto":
                assert cj.log_partition(model, {"a": 0, "c": 1}).value == -np.inf
                continue
            with pytest.raises(ModelError, match="impossible"):
                getattr(cj, question)(model, {"a": 0, "c": 1}, method=method)
    with pytest.raises(ModelError, match="impossible"):
        cj.probability(mn, {"b": 0}, {"a": 0, "c": 1})


# ---- exact -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_exact_joint_and_probability(kind, seed):
    model, given, states, values = random_model(kind, seed)
    domain = model.domain
    rng = np.random.default_rng(seed)
    targets = [domain.names[v] for v in rng.permutation(len(domain))[:3]]
    p = np.exp(values - log_sum(values))
    true = np.zeros([len(domain[name]) for name in targets])
    np.add.at(true, tuple(states[:, domain.index(name)] for name in targets), p)
    found = cj.inference.joint_distribution(model, targets, given)
    np.testing.assert_allclose(found.table, true, atol=1e-9)
    for codes in np.ndindex(*true.shape):
        query = {name: domain[name].states[c] for name, c in zip(targets, codes, strict=True)}
        assert found[tuple(query.values())] == pytest.approx(true[codes], abs=1e-9)
        asked = cj.probability(model, query, given)
        assert asked == pytest.approx(true[codes], abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_exact_samples(kind):
    model, given, states, values = random_model(kind, 2)
    table = cj.sample(model, 20_000, given, method="exact", random_state=3)
    p = np.exp(values - log_sum(values))
    place = {tuple(row): i for i, row in enumerate(states.tolist())}
    counts = np.bincount([place[tuple(r)] for r in table.codes.tolist()], minlength=len(p))
    assert (counts[p == 0] == 0).all()
    error = np.sqrt(np.maximum(p * (1 - p), 1e-9) / len(table))
    assert (np.abs(counts / len(table) - p) < 5 * error + 2e-4).all()


def test_rows_with_missing_values():
    model, _, states, values = random_model("hard zeros", 0)
    domain = model.domain
    rng = np.random.default_rng(0)
    codes = states[rng.choice(np.flatnonzero(values > -np.inf), 60)].astype(np.int64)
    whole = log_potentials(model, states)
    hidden = rng.random(codes.shape) < 0.5
    codes[hidden] = -1
    found = cj.scoring.log_likelihood(model, cj.Table(domain, codes)).by_row
    for r, row in enumerate(codes):
        agree = ((states == row) | (row < 0)).all(1)
        given = np.where(agree, whole, -np.inf)
        assert found[r] == pytest.approx(log_sum(given) - log_sum(whole), abs=1e-9)


def test_what_does_not_fit_is_refused_at_once(monkeypatch):
    from conjoin.kernels.elimination_order import greedy_order

    works = []

    def counted(*args):
        found = greedy_order(*args)
        works.append(found[2])
        return found

    monkeypatch.setattr("conjoin.inference.plan.greedy_order", counted)
    rng = np.random.default_rng(0)
    domain = Domain.numbered([2] * 300)
    pairs = [tuple(sorted(rng.choice(300, 2, replace=False).tolist())) for _ in range(3000)]
    mn = MarkovNetwork(
        domain, factors=[TableFactor(p, rng.normal(0, 0.1, size=(2, 2))) for p in set(pairs)]
    )
    for ask in (cj.marginals, cj.log_partition, cj.most_probable):
        with pytest.raises(TooLarge, match=r"may use 4 GiB.*max_memory.*'bp'"):
            ask(mn, method="exact", max_memory=4 << 30)
    # The search is given up after about 0.3 s, and what was refused is not searched again.
    assert works and sum(works) < 3e8
    searched = len(works)
    with pytest.raises(TooLarge):
        cj.marginals(mn, method="exact", max_memory=1 << 20)
    assert len(works) == searched
    with pytest.raises(TooLarge):
        cj.marginals(mn, method="exact", max_memory=1 << 33)
    assert len(works) > searched
    found = cj.marginals(mn, max_memory=4 << 30)
    assert found.run.method == "gibbs" and not found.run.exact
    assert "exact needs" in found.run.note
    assert cj.log_partition(mn, chains=4, steps=5, max_memory=4 << 30).run.method == "ais"
    with pytest.raises(TooLarge):
        cj.marginals(mn, {f"v{i}": 0 for i in range(280)}, method="exact", max_memory=100)


def coupled(weight, field):
    """Twelve variables, each pair of which would rather be equal, in two ways that count twice."""
    domain = Domain.numbered([2] * 12)
    terms = [(field, {f"v{i}": 1}) for i in range(12)]
    for i in range(12):
        for j in range(i):
            terms += [(weight, {f"v{i}": s, f"v{j}": s}) for s in (0, 1)]
    return MarkovNetwork(domain, Features.from_terms(domain, terms))


def test_without_room_marginals_are_those_that_can_be_trusted():
    weak = coupled(0.2, 0.05)
    found, true = cj.marginals(weak, max_memory=1), cj.marginals(weak, method="exact")
    beliefs = cj.marginals(weak, method="bp")
    assert found.run.method == "gibbs" and found.run.converged and beliefs.run.converged
    assert "standard errors up to" in found.run.note and "bp differs by up to" in found.run.note
    off, bp_off = (
        max(np.abs(answer.array(n) - true.array(n)).max() for n in weak.domain.names)
        for answer in (found, beliefs)
    )
    assert off < 5 * found.run.error < bp_off
    # Options go to the engine that has them.
    told = cj.marginals(weak, max_memory=1, damping=0.3, n_samples=300, random_state=1)
    assert "4 chains of 300 sweeps" in told.run.note
    assert cj.log_partition(weak, max_memory=1, steps=10, damping=0.3).run.method == "ais"
    assert cj.most_probable(weak, max_memory=1, starts=2).run.method == "annealing"
    strong = cj.marginals(coupled(5.0, 0.0), max_memory=1)  # all ones, or all zeros
    assert strong.run.method == "bp" and "uncertain: Gibbs chains disagree" in strong.run.note
    assert not cj.marginals(coupled(5.0, 0.0), method="gibbs").run.converged
    dn = random_dependency_network(
        np.random.default_rng(0), random_domain(np.random.default_rng(0))
    )
    asked = cj.marginals(dn)
    assert asked.run.method == "gibbs"
    again = cj.inference.gibbs.gibbs(dn)
    for name in dn.domain.names:
        np.testing.assert_array_equal(asked.array(name), again.marginals[name])


def test_extreme_weights_do_not_overflow_or_underflow():
    domain = Domain.numbered([2, 2, 2])
    # Messages of e^900 and e^-900 that cancel.
    factors = [
        TableFactor((0, 1), np.array([[900.0, 0.0], [0.0, -900.0]])),
        TableFactor((1, 2), np.array([[-900.0, 0.0], [0.0, 900.0]])),
        TableFactor((0, 2), np.array([[3.0, 1.0], [2.0, 0.0]])),
    ]
    mn = MarkovNetwork(domain, factors=factors)
    states = all_states(domain)
    values = log_potentials(mn, states)
    assert cj.log_partition(mn).value == pytest.approx(log_sum(values), abs=1e-9)
    found = cj.marginals(mn)
    for v, true in enumerate(true_marginals(domain, states, values)):
        np.testing.assert_allclose(found.array(f"v{v}"), true, atol=1e-9)


def test_barren_variables_do_not_matter():
    rng = np.random.default_rng(5)
    domain = Domain.numbered([2] * 6)
    model = random_bayesian_network(rng, domain)
    states = all_states(domain)
    values = log_potentials(model.to_markov_network(), states)
    for target in domain.names:
        for given in domain.names:
            if given != target:
                agree = states[:, domain.index(given)] == 1
                true = true_marginals(domain, states, np.where(agree, values, -np.inf))
                found = cj.marginals(model, {given: 1}, targets=[target])
                assert list(found) == [target]
                np.testing.assert_allclose(
                    found.array(target), true[domain.index(target)], atol=1e-9
                )


def test_mistakes_are_named():
    model, _, _, _ = random_model("features and factors", 0)
    with pytest.raises(ModelError, match="expected a model, not dict"):
        cj.marginals({})
    with pytest.raises(ModelError, match="mapping"):
        cj.marginals(model, ["x0"])
    with pytest.raises(ModelError, match=r"targets=\['x0'\]"):
        cj.marginals(model, targets="x0")
    with pytest.raises(DataError, match="no variable 'y'"):
        cj.probability(model, {"y": 1})
    with pytest.raises(ConjoinError, match="twice"):
        cj.inference.joint_distribution(model, ["x0", "x0"])
    dn = DependencyNetwork.from_markov_network(random_model("features and factors", 0)[0])
    for ask in (cj.log_partition, cj.inference.forecast, cj.most_probable):
        with pytest.raises(ModelError, match="convert"):
            ask(dn)
    for method in ("exact", "bp"):
        with pytest.raises(ModelError, match="convert"):
            cj.marginals(dn, method=method)
    with pytest.raises(ModelError, match="convert"):
        cj.most_probable(dn, method="annealing")


# ---- belief propagation ------------------------------------------------------------------------


def test_messages_of_a_long_feature_are_exact_and_linear():
    for n, soft in ((12, False), (12, True)):
        domain = Domain.numbered([2] * n)
        rng = np.random.default_rng(n)
        terms = [(2.0, {f"v{i}": 1 for i in range(n)})]
        features = Features.from_terms(domain, terms)
        if soft:
            features = replace(features, off=rng.uniform(0.5, 0.9, n))
        singles = [TableFactor((i,), np.arange(2) + rng.normal(size=2)) for i in range(n)]
        mn = MarkovNetwork(domain, features, singles)
        states = all_states(domain)
        values = mn.log_potential(states)
        found = cj.marginals(mn, method="bp")
        assert found.run.exact
        for v, true in enumerate(true_marginals(domain, states, values)):
            np.testing.assert_allclose(found.array(f"v{v}"), true, atol=1e-6)
        assert cj.log_partition(mn, method="bp").value == pytest.approx(log_sum(values), abs=1e-6)
    domain = Domain.numbered([2] * 5000)  # 2^5000 states, one feature over all of them
    always = {f"v{i}": 1 for i in range(5000)}
    mn = MarkovNetwork(domain, Features.from_terms(domain, [(3.0, always)]))
    assert cj.marginals(mn, method="bp")["v7"][1] == pytest.approx(0.5)


def test_not_coming_to_rest_is_reported():
    domain = Domain.numbered([2] * 3)
    table = np.array([[-4.0, 4.0], [4.0, -4.0]])  # each pair wants to differ
    mn = MarkovNetwork(domain, factors=[TableFactor(p, table) for p in ((0, 1), (1, 2), (0, 2))])
    push = Features.from_terms(domain, [(0.3, {"v0": 1})])
    mn = MarkovNetwork(domain, push, mn.factors)
    found = cj.marginals(mn, method="bp", max_updates=3)
    assert not found.run.converged and "not converged" in found.run.note


# ---- data --------------------------------------------------------------------------------------


def read_marginals(path):
    words = path.read_text().split()[1:]
    arrays, at = [], 1
    for _ in range(int(words[0])):
        size = int(words[at])
        arrays.append(np.array(words[at + 1 : at + 1 + size], float))
        at += 1 + size
    return arrays


def uai_problem(path):
    model = cj.load(path)
    return model, read_evidence(Path(f"{path}.evid"), model.domain)


def test_uai_problems(data):
    """The problems whose forecast is a second or less; the benchmark runs all of them."""
    done = 0
    for path in sorted((data / "uai").glob("*.uai")):
        model, given = uai_problem(path)
        try:
            cost = cj.inference.forecast(model, given)
        except TooLarge:
            continue
        if cost.seconds > 1:
            continue
        true = float(Path(f"{path}.PR").read_text().split()[1])
        log10 = cj.log_partition(model, given).value / math.log(10)
        assert log10 == pytest.approx(true, abs=1e-3), path.name
        found = cj.marginals(model, given)
        for p, q in zip(found.arrays(), read_marginals(Path(f"{path}.MAR")), strict=True):
            np.testing.assert_allclose(p, q, atol=1e-5, err_msg=path.name)
        done += 1
    assert done >= 8


def agrum_network(gum, bn):
    """The same network in pyAgrum, number by number: its BIF reader keeps single precision."""
    theirs = gum.BayesNet()
    for i, variable in enumerate(bn.domain):
        labels = [f"s{k}" for k in range(len(variable))]
        theirs.add(gum.LabelizedVariable(f"v{i}", "", labels))
    for cpd in bn.cpds:
        for p in cpd.parents:
            theirs.addArc(f"v{p}", f"v{cpd.target}")
    for cpd in bn.cpds:
        cpt = theirs.cpt(f"v{cpd.target}")
        names = [f"v{p}" for p in (*cpd.parents, cpd.target)]
        order = [names.index(name) for name in reversed(cpt.names)]
        cpt[:] = np.ascontiguousarray(np.exp(cpd.table).transpose(order))
    return theirs


def test_bayesian_networks_agree_with_pyagrum(data):
    gum = pytest.importorskip("pyagrum")
    rng = np.random.default_rng(0)
    for path in sorted((data / "bif").glob("*.bif.gz")):
        bn = cj.load(path)
        theirs = agrum_network(gum, bn)
        for seed in range(5):
            row = cj.sample(bn, 1, method="exact", random_state=seed).codes[0]
            chosen = rng.permutation(len(bn.domain))[: len(bn.domain) // 4 + 1]
            labels = bn.domain.decode(row)
            given = {bn.domain.names[v]: labels[bn.domain.names[v]] for v in chosen}
            lazy = gum.LazyPropagation(theirs)
            lazy.setEvidence({f"v{v}": int(row[v]) for v in chosen})
            lazy.makeInference()
            found = cj.marginals(bn, given)
            for v, name in enumerate(bn.domain.names):
                p = lazy.posterior(f"v{v}").toarray()
                np.testing.assert_allclose(found.array(name), p, atol=1e-9)


def test_log_likelihood_on_nltcs_is_that_of_enumeration(data):
    train, test = (
        read_table(data / "debd" / "nltcs" / f"nltcs.{part}.data.gz") for part in ("train", "test")
    )
    for cpd, setting in (("tree", {"kappa": 1e-2}), ("logistic", {"penalty": 5.0})):
        mn = cj.convert(learn_conditionals(train, cpd, **setting), train)
        states = all_states(mn.domain)
        log_z = log_sum(mn.log_potential(states))
        found = cj.scoring.log_likelihood(mn, test).by_row
        np.testing.assert_allclose(found, mn.log_potential(test) - log_z, atol=1e-9)
        sampled = cj.log_partition(mn, method="ais", chains=40, steps=200)
        assert sampled.error < 0.2 and abs(sampled.value - log_z) < 4 * sampled.error


@pytest.mark.slow
def test_annealed_importance_sampling_on_msnbc(data):
    train = read_table(data / "debd" / "msnbc" / "msnbc.train.data.gz")
    mn = cj.convert(learn_conditionals(train, "tree", kappa=1e-30), train)
    found = cj.log_partition(mn, method="ais", chains=40, steps=100)
    true = cj.log_partition(mn, method="exact").value
    assert found.error < 0.2 and abs(found.value - true) < 4 * found.error


# ---- the command -------------------------------------------------------------------------------


def test_query_command(tmp_path, capsys):
    domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"], "n=1,2": [0, 1]})
    bn = BayesianNetwork(
        domain,
        [
            TableCPD.of(domain, "rain", [], 0.2),
            TableCPD.of(domain, "wet", ["rain"], {"no": 0.1, "yes": 0.9}),
            TableCPD.of(domain, "n=1,2", ["wet"], {"no": 0.5, "yes": 0.25}),
        ],
    )
    path = str(tmp_path / "m.conjoin")
    bn.save(path)
    assert main(["query", path, "--given", "wet=yes"]) == 0
    out = capsys.readouterr().out.split("\n")
    assert out[0] == "Probabilities given wet=yes (exact)"
    assert out[1].split() == ["rain", "no", "0.3077", "yes", "0.6923"]  # 0.18 / 0.26
    assert out[2].startswith("n=1,2")
    event = ["--probability", "rain=yes", "--given", "wet=yes"]
    assert main(["query", path, *event]) == 0
    assert capsys.readouterr().out == "P(rain=yes | wet=yes) = 0.6923 (exact)\n"
    assert main(["query", path, "--probability", "rain=yes, wet=no"]) == 0
    assert capsys.readouterr().out == "P(rain=yes, wet=no) = 0.02 (exact)\n"
    assert main(["query", path, "--given", "rain=yes, wet=no", "--target", "n=1,2"]) == 0
    assert "0.5000" in capsys.readouterr().out
    assert main(["query", path, "--given", '"n=1,2=1"', "--target", "wet", "--json"]) == 0
    import json

    told = json.loads(capsys.readouterr().out)
    assert main(["query", path, *event, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["probability"] == pytest.approx(0.18 / 0.26)
    wet = 0.26 * 0.25 / (0.26 * 0.25 + 0.74 * 0.5)
    assert told["marginals"]["wet"]["yes"] == pytest.approx(wet) and told["exact"]
    twice = ["--given", "rain=yes", "--given", "wet=no", "--target", "n=1,2"]
    assert main(["query", path, *twice]) == 0
    assert "0.5000" in capsys.readouterr().out
    assert main(["query", path, "--map", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["most_probable"] == {"rain": "no", "wet": "no", "n=1,2": 0}
    assert told["score"] == pytest.approx(math.log(0.8 * 0.9 * 0.5))
    assert main(["query", path, "--map", "--given", "wet=yes"]) == 0
    out = capsys.readouterr().out
    assert "Most probable instance given wet=yes (exact)" in out
    assert (
        "wet    yes  (given)" in out and "log-potential: -2.00248" in out
    )  # log(0.2 * 0.9 * 0.75)
    for wrong, message in (
        (["--given", "wet"], "NAME=STATE"),
        (["--given", "wet=perhaps"], "no state 'perhaps'"),
        (["--given", "wett=yes"], "Did you mean 'wet'"),
        (["--given", "wet=yes", "--given", "wet=no"], "'wet' is given twice"),
        (["--target", "dry"], "no variable 'dry'"),
        (["--method", "magic"], "no method 'magic'"),
        (["--task", "MAR", "--json"], "--task"),
        (["--map", "--target", "wet"], "--map"),
        (["--map", "--probability", "wet=no"], "--map"),
        (["--target", "wet", "--probability", "wet=no"], "--probability"),
        (["--max-memory", "0"], "--max-memory"),
    ):
        assert main(["query", path, *wrong]) == 1
        assert message in capsys.readouterr().err


def test_query_command_prints_uai_solutions(data, capsys):
    path = data / "uai" / "Promedus_24.uai"
    for task in ("PR", "MAR"):
        assert main(["query", str(path), "--evidence", f"{path}.evid", "--task", task]) == 0
        out = capsys.readouterr().out.split()
        true = Path(f"{path}.{task}").read_text().split()
        assert out[0] == true[0] and len(out) == len(true)
        np.testing.assert_allclose(
            np.array(out[1:], float),
            np.array(true[1:], float),
            atol=1e-5 if task == "MAR" else 1e-3,
        )
    assert main(["query", str(path), "--evidence", f"{path}.evid", "--task", "MAP"]) == 0
    out = capsys.readouterr().out.split()
    model, given = uai_problem(path)
    assert out[:2] == ["MAP", "200"]
    row = np.array(out[2:], np.uint8)
    assert all(row[model.domain.index(n)] == s for n, s in given.items())
    best = cj.most_probable(model, given)
    assert model.log_potential(row[None, :])[0] == pytest.approx(best.score)


def test_a_chain_of_thousands_is_exact():
    n = 3000
    domain = Domain.numbered([2] * n)
    rng = np.random.default_rng(1)
    tables = rng.normal(size=(n - 1, 2, 2))
    pairs = [TableFactor(p, t) for p, t in zip(pairwise(range(n)), tables, strict=True)]
    mn = MarkovNetwork(domain, factors=pairs)
    message = np.zeros(2)
    for table in tables:
        total = message[:, None] + table
        message = np.log(np.exp(total - total.max()).sum(0)) + total.max()
    assert cj.log_partition(mn).value == pytest.approx(log_sum(message), rel=1e-12)


def test_random_trees_become_tables_or_paths():
    rng = np.random.default_rng(4)
    domain = Domain.numbered([3] * 9)
    factors = [random_tree(rng, domain.cards, np.arange(9), rng.normal, depth=7) for _ in range(3)]
    mn = MarkovNetwork(domain, factors=factors)
    states = all_states(domain)
    values = mn.log_potential(states)
    assert cj.log_partition(mn).value == pytest.approx(log_sum(values), abs=1e-9)


def test_more_variables_together_than_a_float_has_powers_of_two():
    domain = Domain.numbered([2] * 1100)
    tests = [{f"v{i}": int(i != k) for i in range(1100)} for k in range(6)]  # too long for chains
    mn = MarkovNetwork(domain, Features.from_terms(domain, [(1.0, test) for test in tests]))
    with pytest.raises(TooLarge, match=r"may use .* [GM]iB"):
        cj.marginals(mn, method="exact")


# ---- questions whose states are written in several ways ------------------------------------------


@pytest.fixture
def ages():
    """A network whose first variable has numbers as states."""
    age = Variable("age", (25, 34, 45))
    domain = Domain([age, Variable("ill", ("no", "yes"))])
    rng = np.random.default_rng(0)
    mn = MarkovNetwork(domain, factors=[TableFactor((0, 1), rng.normal(size=(3, 2)))])
    states = all_states(domain)
    return mn, states, np.exp(normalized(log_potentials(mn, states)))


@pytest.mark.parametrize("method", ["auto", "exact", "bp", "ais", "gibbs"])
def test_numbers_are_states_however_they_are_written(ages, method):
    mn, states, p = ages
    options = {"ais": {"chains": 200}, "gibbs": {"n_samples": 4000}}.get(method, {})
    within = {"auto": 1e-9, "exact": 1e-9, "bp": 1e-7}.get(method, 0.05)  # messages: to 1e-8
    ill = p[(states == [1, 1]).all(1)].sum() / p[states[:, 0] == 1].sum()
    for age in (34, 34.0):
        for given_age in (34, 34.0):
            found = cj.probability(
                mn, {"age": age, "ill": "yes"}, {"age": given_age}, method=method, **options
            )
            assert float(found) == pytest.approx(ill, abs=within)
    other = cj.probability(mn, {"age": 34}, {"age": 45}, method=method, **options)
    assert float(other) == 0 and other.log == -np.inf
    old = cj.probability(mn, {"age": 34}, method=method, **options)
    assert float(old) == pytest.approx(p[states[:, 0] == 1].sum(), abs=within)


def test_answers_are_labelled(ages):
    mn = ages[0]
    found = cj.probability(mn, {"ill": "yes"}, {"age": 34})
    assert repr(found) == f"P(ill=yes | age=34) = {float(found):.4g} (exact)"
    assert found.log == pytest.approx(math.log(found)) and found.error == found.log_error == 0
    assert f"{found:.3f}" == f"{float(found):.3f}"
    assert repr(cj.log_partition(mn)).startswith("log Z = ")
    assert repr(cj.log_partition(mn, {"age": 34})).startswith("log Z(age=34) = ")
    sampled = cj.probability(mn, {"ill": "yes", "age": 25}, method="gibbs", random_state=1)
    assert " ± " in repr(sampled) and "(gibbs" in repr(sampled)
    assert sampled.error == pytest.approx(float(sampled) * sampled.log_error)


def test_a_search_for_an_order_says_that_none_fits():
    n = 80
    none = np.zeros(0, np.int64)
    cards = np.full(n, 2)
    whole = find_order(cards, np.array([0, n]), np.arange(n), none, 8 * 2.0**20)
    assert whole.total == np.inf and whole.largest == n
    pairs = np.array([(i, j) for i in range(30) for j in range(i)]).ravel()
    some = find_order(cards[:30], np.arange(0, len(pairs) + 1, 2), pairs, none, 8 * 2.0**20)
    assert some.total == np.inf
