"""Evidence of every kind, compared with sums over all joint states."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import conjoin as cj
from conjoin import (
    ConjoinError,
    DependencyNetwork,
    Domain,
    JointModel,
    Likelihood,
    Marginal,
    MarkovNetwork,
    Not,
    OneOf,
    Range,
    Variable,
    what_if,
)
from conjoin.cli.main import main
from conjoin.data import Column, table_of_columns
from conjoin.errors import DataError, DataWarning, ModelError
from conjoin.inference import (
    ENGINES,
    compiled,
    conditions_text,
    evidence_of,
    label_text,
    parse_conditions,
)
from conjoin.models import TableFactor
from reference import all_states
from strategies import random_bayesian_network, random_markov_network

KINDS = ("features and factors", "zeros", "Bayesian", "hidden", "hidden with zeros")
CASES = [(kind, seed) for kind in KINDS for seed in range(8)]


def random_model(kind, seed):
    """A model over numbers, dates and words, and the potential of each joint state."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    ages = Variable("age", [20.5, 30, 40])
    days = Variable("day", ["2024-01-01", "2024-02-01", "2024-03-01"])
    columns = [Variable("n", [1, 2, 5]), ages, days, Variable("word", ["a", "b", "c, d"])]
    columns = [columns[i] for i in rng.permutation(4)]
    if "hidden" in kind:
        columns.append(Variable("(hidden)", range(3), hidden=True))
    domain = Domain(columns)
    if kind == "Bayesian":
        model = random_bayesian_network(rng, domain)
        joint = model.to_markov_network()
    else:
        model = random_markov_network(rng, domain)
        pairs = [(i, j) for i in range(len(domain)) for j in range(i)]
        extra = [TableFactor(pair, 2 * rng.normal(size=domain.cards[list(pair)])) for pair in pairs]
        if "zeros" in kind:
            for factor in extra:
                factor.table[rng.random(factor.table.shape) < 0.12] = -np.inf
        joint = model = MarkovNetwork(domain, model.features, [*model.factors, *extra])
    states = all_states(domain)
    logs = joint.features.evaluate(states) + sum(f.evaluate(states) for f in joint.factors)
    return rng, model, states, np.exp(logs)


def random_condition(rng, domain, name):
    """A random condition on a variable, and the weight of each of its states, worked out by hand."""
    variable = domain[name]
    states, n = variable.states, len(variable)
    some = rng.permutation(n)[: int(rng.integers(1, n))].tolist()
    kind = rng.choice(["state", "one of", "list", "not", "likelihood", "range"])
    if kind == "state":
        return states[some[0]], np.eye(n)[some[0]]
    if kind in ("one of", "list"):
        chosen = [states[s] for s in some]
        return OneOf(*chosen) if kind == "one of" else chosen, np.eye(n)[some].sum(0)
    if kind == "not":
        return Not(*(states[s] for s in some)), 1 - np.eye(n)[some].sum(0)
    if kind == "likelihood" or name not in ("n", "age", "day"):
        numbers = rng.uniform(0, 2, n).round(3)
        numbers[rng.integers(n)] = 0.0
        return Likelihood(dict(zip(states, numbers.tolist(), strict=True))), numbers
    ranges = {
        "n": [
            (Range(above=1), [0, 1, 1]),
            (Range(at_least=2, below=5), [0, 1, 0]),
            (Range(at_most=2), [1, 1, 0]),
            (Range(above=0.5, at_most=1), [1, 0, 0]),
        ],
        "age": [
            (Range(above=30), [0, 0, 1]),
            (Range(at_least=25, below=50), [0, 1, 1]),
            (Range(at_most=59), [1, 1, 1]),
            (Range(below=40), [1, 1, 0]),
        ],
        "day": [
            (Range(above="2024-01-01"), [0, 1, 1]),
            (Range(at_least="2024-01-15", at_most="2024-02-01"), [0, 1, 0]),
            (Range(below="2024-02-29T12:00"), [1, 1, 0]),
        ],
    }[name]
    condition, weights = ranges[rng.integers(len(ranges))]
    return condition, np.array(weights, float)


def random_evidence(rng, domain, states, share=0.6):
    """Random evidence, and the weight of each joint state."""
    given, total = {}, np.ones(len(states))
    for v, name in enumerate(domain.observed.names):
        if rng.random() < share:
            given[name], weights = random_condition(rng, domain, name)
            total = total * weights[states[:, v]]
    return given, total


def true_marginal(states, p, v, card):
    return np.array([p[states[:, v] == s].sum() for s in range(card)]) / p.sum()


@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_answers_given_any_evidence(kind, seed):
    rng, model, states, potential = random_model(kind, seed)
    domain = model.domain
    answered = 0
    for _ in range(12):
        given, weights = random_evidence(rng, domain, states)
        p = potential * weights
        if not p.any():
            with pytest.raises(ModelError, match="impossible"):
                cj.marginals(model, given)
            continue
        answered += 1
        asked = given if rng.random() < 0.5 else str(evidence_of(domain, given))
        found = cj.marginals(model, asked, targets=domain.names)
        assert found.run.exact
        for v, name in enumerate(domain.names):
            true = true_marginal(states, p, v, domain.cards[v])
            np.testing.assert_allclose(found.array(name), true, atol=1e-9)
        assert cj.log_partition(model, asked).value == pytest.approx(np.log(p.sum()), abs=1e-9)
        event, holds = random_evidence(rng, domain, states, 0.5)
        event = {n: c for n, c in event.items() if not isinstance(c, Likelihood) and n not in given}
        holds = np.ones(len(states))
        for name, condition in event.items():
            holds *= np.exp(evidence_of(domain, {name: condition}).log_weights(domain.index(name)))[
                states[:, domain.index(name)]
            ]
        true = (p * holds).sum() / p.sum()
        assert float(cj.probability(model, event, asked)) == pytest.approx(true, abs=1e-9)
        pair = [domain.names[i] for i in rng.permutation(len(domain))[:2]]
        table = cj.inference.joint_distribution(model, pair, asked).table
        at = [domain.index(name) for name in pair]
        for cell in np.ndindex(table.shape):
            true = p[(states[:, at] == cell).all(1)].sum() / p.sum()
            assert table[cell] == pytest.approx(true, abs=1e-9)
        best = cj.most_probable(model, asked)
        shown = len(domain.observed)
        rows = {}
        for state, value in zip(states[:, :shown].tolist(), p, strict=True):
            rows[tuple(state)] = rows.get(tuple(state), 0) + value
        own = rows[tuple(domain.observed.encode(dict(best)))]
        assert best.score == pytest.approx(np.log(own), abs=1e-9)
        assert np.log(max(rows.values())) <= best.bound + 1e-9
        if "best found" not in best.run.note:
            assert best.score == pytest.approx(np.log(max(rows.values())), abs=1e-9)
        drawn = cj.sample(model, 300, asked, method="exact").codes
        assert all(rows[tuple(row)] > 0 for row in drawn.tolist())
    assert answered > 3


@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_conditions_on_one_column_are_joined(kind, seed):
    _, model, states, potential = random_model(kind, seed)
    domain = model.domain
    v = domain.index("age")

    def weight(test):
        holds = np.array([test(x) for x in domain["age"].states])
        return potential * holds[states[:, v]]

    given, event = "age > 10, age != 30", "age > 27 and age < 44"
    below = weight(lambda x: x > 10 and x != 30).sum()
    above = weight(lambda x: 27 < x < 44 and x != 30).sum()
    if below:
        assert float(cj.probability(model, event, given)) == pytest.approx(above / below, abs=1e-9)
        assert float(cj.probability(model, "age=30", given)) == 0


def fitted(p, states, wanted):
    """Iterative proportional fitting of the whole joint distribution, the slow way."""
    p = p / p.sum()
    for _ in range(3000):
        for v, target in wanted.items():
            now = np.array([p[states[:, v] == s].sum() for s in range(len(target))])
            p = p * np.divide(target, now, out=np.zeros(len(now)), where=now > 0)[states[:, v]]
    return p


@pytest.mark.parametrize(("kind", "seed"), [c for c in CASES if "zeros" not in c[0]])
def test_new_marginals(kind, seed):
    rng, model, states, potential = random_model(kind, seed)
    domain = model.domain
    given, weights = random_evidence(rng, domain, states, 0.3)
    count = int(rng.integers(1, 4))
    wanted = {}
    for v in rng.permutation(4).tolist():
        name = domain.names[v]
        if len(wanted) == count or name in given:
            continue
        q = rng.dirichlet(np.ones(3))
        if rng.random() < 0.3:
            q = np.array([0.25, 0, 0.75])
        given[name] = Marginal(dict(zip(domain[name].states, q.tolist(), strict=True)))
        wanted[v] = q
    p = fitted(potential * weights, states, wanted)
    asked = given if rng.random() < 0.5 else str(evidence_of(domain, given))
    found = cj.marginals(model, asked, targets=domain.names)
    for v, name in enumerate(domain.names):
        true = true_marginal(states, p, v, domain.cards[v])
        np.testing.assert_allclose(found.array(name), true, atol=1e-8)
    first, state = domain.names[0], domain.variables[0].states[1]
    true = p[states[:, 0] == 1].sum()
    assert float(cj.probability(model, {first: state}, asked)) == pytest.approx(true, abs=1e-8)
    drawn = cj.sample(model, 4000, asked).codes
    for v, target in wanted.items():
        np.testing.assert_allclose(np.bincount(drawn[:, v], minlength=3) / 4000, target, atol=0.05)
    with pytest.raises(ModelError, match="no observation"):
        cj.log_partition(model, asked)


def test_new_marginals_that_cannot_be_reached():
    domain = Domain({"a": [0, 1], "b": [0, 1]})
    same = MarkovNetwork(
        domain, factors=[TableFactor((0, 1), np.array([[0, -np.inf], [-np.inf, 0]]))]
    )
    half = {"a": Marginal({0: 0.5, 1: 0.5})}
    assert cj.marginals(same, half)["b"][1] == pytest.approx(0.5)
    with pytest.raises(ModelError, match="contradict"):
        cj.marginals(same, {**half, "b": Marginal({0: 0.4, 1: 0.6})})
    with pytest.raises(ModelError, match="cannot be reached"):
        cj.marginals(same, {**half, "b": 1})
    with pytest.raises(DataError, match="sum to 0.9"):
        cj.marginals(same, {"a": Marginal({0: 0.4, 1: 0.5})})


APPROXIMATE = {
    "bp": {},
    "gibbs": {"n_samples": 4000},
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("method", [*APPROXIMATE, "ais"])
def test_other_engines_use_all_evidence(method, seed):
    """On independent variables every engine is right, so only the evidence can go wrong."""
    rng = np.random.default_rng(seed)
    domain = Domain({"n": [1, 2, 5], "word": ["a", "b", "c"], "free": [0, 1]})
    model = MarkovNetwork(
        domain, factors=[TableFactor((v,), rng.normal(size=c)) for v, c in enumerate((3, 3, 2))]
    )
    given = "n > 1, word likelihood {a: 0.5, b: 2, c: 0}"
    states = all_states(domain)
    p = np.exp(model.log_potential(states))
    p *= np.array([0, 1, 1])[states[:, 0]] * np.array([0.5, 2, 0])[states[:, 1]]
    if method != "ais":
        found = cj.marginals(model, given, method=method, **APPROXIMATE[method])
        for v, name in enumerate(domain.names):
            np.testing.assert_allclose(
                found.array(name), true_marginal(states, p, v, domain.cards[v]), atol=0.03
            )
    if method != "gibbs":
        log_z = cj.log_partition(model, given, method=method).value
        assert log_z == pytest.approx(np.log(p.sum()), abs=0.1)
    both = p[(states[:, 0] == 2) & (states[:, 1] < 2)].sum() / p.sum()
    options = {"n_samples": 4000} if method == "gibbs" else {}
    found = cj.probability(model, "n >= 3, word in {a, b}", given, method=method, **options)
    assert float(found) == pytest.approx(both, abs=0.05)


@pytest.mark.parametrize("method", ENGINES["most_probable"])
@pytest.mark.parametrize("seed", range(4))
def test_the_most_probable_instance_by_every_engine(method, seed):
    _, model, states, potential = random_model("features and factors", seed)
    domain = model.domain
    given = {
        "n": Range(above=1),
        "word": Not("a"),
        "age": Likelihood({20.5: 0.3, 30: 1, 40: 2}),
    }
    weights = np.array([0, 1, 1])[states[:, domain.index("n")]] * np.array([0, 1, 1])[
        states[:, domain.index("word")]
    ] * np.array([0.3, 1, 2])[states[:, domain.index("age")]]  # fmt: skip
    p = potential * weights
    found = cj.most_probable(model, given, method=method)
    own = p[(states == domain.encode(dict(found))).all(1)]
    assert found.score == pytest.approx(float(np.log(own[0])), abs=1e-6)
    assert own[0] == pytest.approx(p.max())


@pytest.mark.parametrize("method", ["gibbs", "auto"])
def test_dependency_networks_take_conditions(method):
    domain = Domain({"n": [1, 2, 5], "word": ["a", "b", "c"]})
    rng = np.random.default_rng(3)
    mn = MarkovNetwork(domain, factors=[TableFactor((0, 1), rng.normal(size=(3, 3)))])
    dn = DependencyNetwork.from_markov_network(mn)
    given = "n >= 2, word likelihood {a: 1, b: 0.2, c: 0}"
    found = cj.marginals(dn, given, method=method, n_samples=8000)
    true = cj.marginals(mn, given)
    for name in domain.names:
        np.testing.assert_allclose(found.array(name), true.array(name), atol=0.03)
    event = "n in {1, 2}, word != b"
    p = cj.probability(dn, event, given, method=method, n_samples=8000)
    assert float(p) == pytest.approx(float(cj.probability(mn, event, given)), abs=0.03)
    assert set(cj.sample(dn, 500, given).codes[:, 0].tolist()) == {1, 2}
    with pytest.raises(ModelError, match="convert"):
        cj.marginals(dn, {"n": Marginal({1: 1.0})})


def test_plans_are_reused():
    _, model, _, _ = random_model("features and factors", 0)
    for low in (0, 1, 1.5):
        cj.marginals(
            model, {"n": Range(above=low), "word": Likelihood({"a": 1, "b": low, "c, d": 3})}
        )
        cj.marginals(model, {"age": Range(at_most=30 + low)})
    assert len(compiled(model).plans) == 1
    before = dict(compiled(model).plans)
    cj.marginals(model, "n < 5, day > 2024-01-15")
    assert compiled(model).plans == before


# ---- text ------------------------------------------------------------------------------------

PLACES = Domain({
    "city, state": ["Austin, TX", "Reno, NV"],
    "income": ["<=50K", ">50K"],
    "a=b": ["x", "y"],
    "age": [20, 30, 40.5],
    "day": ["2024-01-31", "2024-02-01"],
    "set": ["{a}", "rock and roll", "in {x}", 'say "hi"'],
    "flag": [False, True],
})  # fmt: skip


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ('"city, state"="Austin, TX"', "city, state", "Austin, TX"),
        ('"city, state=Austin, TX"', "city, state", "Austin, TX"),
        ('"city, state" in {"Austin, TX", "Reno, NV"}', "city, state", OneOf("Austin, TX", "Reno, NV")),
        ("income=>50K", "income", ">50K"),
        ("income = <=50K", "income", "<=50K"),
        ('income!="<=50K"', "income", Not("<=50K")),
        ("income not in {<=50K}", "income", Not("<=50K")),
        ("a=b=x", "a=b", "x"),
        ('"a=b" != y', "a=b", Not("y")),
        ("age=30", "age", 30),
        ("age == 40.5", "age", 40.5),
        ("age>30", "age", Range(above=30)),
        ("age >= 30", "age", Range(at_least=30)),
        ("30 < age", "age", Range(above=30)),
        ("40>=age", "age", Range(at_most=40)),
        ("20 <= age < 30.5", "age", Range(at_least=20, below=30.5)),
        ("30.5 > age >= 20", "age", Range(at_least=20, below=30.5)),
        ("age in {20, 30}", "age", OneOf(20, 30)),
        ("day > 2024-01-31", "day", Range(above="2024-01-31")),
        ("2024-01-01 <= day <= 2024-01-31", "day", Range(at_least="2024-01-01", at_most="2024-01-31")),
        ('set="{a}"', "set", "{a}"),
        ("set={a}", "set", "{a}"),
        ("set=rock and roll", "set", "rock and roll"),
        ("set=in {x}", "set", "in {x}"),
        ('set="say ""hi"""', "set", 'say "hi"'),
        ('set in {"{a}", rock and roll}', "set", OneOf("{a}", "rock and roll")),
        ("flag=true", "flag", True),
        ("flag likelihood {True: 0.9, False: 0.1}", "flag", Likelihood({True: 0.9, False: 0.1})),
        ('income marginal {">50K": 1, <=50K: 0}', "income", Marginal({">50K": 1, "<=50K": 0})),
    ],
)  # fmt: skip
def test_texts(text, name, value):
    assert parse_conditions(text, PLACES) == [(name, value)]
    again = conditions_text({name: value})
    assert parse_conditions(again, PLACES) == [(name, value)]
    assert parse_conditions(f"flag=true, {text} , flag=false", PLACES)[1] == (name, value)
    assert parse_conditions(f"flag=true and {text} and flag=false", PLACES)[1] == (name, value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("city, state=Austin, TX", 'write "city, state"="Austin, TX"'),
        ("flag=true, city, state=Austin, TX", 'write "city, state"="Austin, TX"'),
        ('"city, state"=Austin, TX', 'write "city, state"="Austin, TX"'),
        ("city, state=Austn", """the name 'city, state' needs double quotes"""),
        ("city, state in {Austin, TX}", """the name 'city, state' needs double quotes"""),
        ("income > 50K", 'write income=">50K"'),
        ("income >50K", 'write income=">50K"'),
        ("flag > 3", "makes no sense, because its states are in no order"),
        ("age > old", "'old' is not a number"),
        ("day > 3", "'3' is not a date"),
        ("age=21", "A range is written age >= 21"),
        ("agee > 3", "there is no variable 'agee'. Did you mean 'age'?"),
        ("age", "'age' is not a condition; write NAME=STATE"),
        ("age=20, age=30", "'age' is given twice"),
        ('age="20', "a double quote is not closed"),
        ("age in {20, 30", "the brace after 'in' is not closed"),
        ("age in {}", "are empty"),
        ("age in {20, 31}", "no state '31'"),
        ("flag likelihood {True, False}", "'True' is not STATE: NUMBER"),
        ("flag likelihood {True: 1}", "no likelihood for flag = False"),
        ("flag likelihood {True: -1, False: 1}", "must be 0 or more"),
        ("flag marginal {True: 0.5}", "sum to 0.5"),
        ("flag marginal {True: 1}, flag marginal {False: 1}", "two new marginals"),
        ("age >", "no value after the sign; write, for example, age = STATE or age > 40"),
        ("age => 30", "'at least' is written >="),
        ("age =< 30", "'at most' <="),
        ("flag <> True", "'is not' is written !="),
        ("not flag=True", "'is not' is written flag != STATE"),
        ("flag not True", "'is not' is written flag != STATE"),
        ("flag is True", "'is' is written flag = STATE"),
        ("flag: True", "'is' is written flag = STATE"),
        ("flag is missing", "leave out columns whose values are not known"),
        ("40 < age > 20", "a range is written 20 <= age < 30"),
        ("age between 20 and 30", "a range is written 20 <= age < 30"),
        ("age in 20..30", "a range is written 20 <= age < 30"),
        ("age in [20, 30]", "one of several values is written age in {A, B}, with braces"),
        ("age in 20", "one of several values is written age in {A, B}, with braces"),
        ("age={20, 30}", "One of several values is written age in {A, B}"),
        ("age=20 or age=30", "Conditions cannot be joined by 'or'"),
        ("age > 20 & flag=True", "separate conditions with commas or with 'and'"),
        ("age > 20; flag=True", "separate conditions with commas or with 'and'"),
        ("flag=True age=20", "Separate conditions with commas or with 'and'"),
        ("age > 20 and", "separate conditions with commas or with 'and'"),
        ("flag=True | age=20", "stands in given= or --given"),
        ("P(flag=True)", "write the conditions alone, without P( )"),
        ("age > 1,000", "write numbers without commas, such as 1000"),
        ("age > 30 years", "write numbers without a unit, such as 40"),
        ("flag = 'True'", "A state stands in double quotes or in none"),
        ("flag likelihood True: 1", "write flag likelihood {A: 0.9, B: 0.2}, with braces"),
    ],
)  # fmt: skip
def test_mistakes_in_texts(text, words):
    with pytest.raises(ConjoinError) as error:
        evidence_of(PLACES, text)
    assert words in str(error.value)


def test_mistakes_in_mappings():
    for value, words in [
        ({True: 0.9, False: 0.1}, r"give Likelihood\(.* or Marginal\("),
        (range(20, 30), r"give Range\(at_least=20, below=30\), or the text '20 <= flag < 30'"),
    ]:
        with pytest.raises(DataError, match=words):
            evidence_of(PLACES, {"flag": value})


def test_ranges_of_ordered_states():
    grade = Variable("grade", ["low", "middle", "high"], ordered=True)
    domain = Domain([grade, Variable("band", ["low", "high"])])
    for text, holds in [
        ("grade > low", [0, 1, 1]),
        ("grade <= middle", [1, 1, 0]),
        ("low < grade < high", [0, 1, 0]),
        ("middle <= grade", [0, 1, 1]),
    ]:
        known = evidence_of(domain, text)
        assert np.exp(known.log_weights(0)).tolist() == holds
        assert np.exp(evidence_of(domain, str(known)).log_weights(0)).tolist() == holds
    for text, words in [("grade > lowest", "no state 'lowest'"), ("band > low", "in no order")]:
        with pytest.raises(DataError, match=words):
            evidence_of(domain, text)


def test_ranges_of_dates():
    days = np.datetime64("2024-01-01") + np.arange(100)
    for values, cut in [(days, "2024-02-01"), (days + np.timedelta64(5, "h"), "2024-02-01 05:00")]:
        column = Column.of_values("day", values.astype(object).tolist())
        table = table_of_columns([column], kinds={"day": "date"})
        domain, p = table.domain, table.marginals(pseudo=0)[0]
        for text, below in [(f"day < {cut}", True), (f"{cut} <= day", False)]:
            share = np.exp(evidence_of(domain, text).log_weights(0))
            known = evidence_of(domain, {"day": Range(below=cut) if below else Range(at_least=cut)})
            np.testing.assert_array_equal(share, np.exp(known.log_weights(0)))
            inside = (values < np.datetime64(cut)) == below
            assert share @ p == pytest.approx(inside.mean(), abs=0.02)
        at = int(np.flatnonzero(values == np.datetime64(cut))[0])
        assert evidence_of(domain, f"day={cut}").states[0] == table.codes[at, 0]
        with pytest.raises(DataError, match="'soon' is not a date"):
            evidence_of(domain, "day > soon")


def test_labels_of_any_kind_can_be_quoted():
    rng = np.random.default_rng(0)
    letters = [*' ab,="{}<>!:', " and ", " in ", "not in {", "\n"]
    labels = {"".join(rng.choice(letters, rng.integers(1, 7))) for _ in range(300)}
    for label in sorted(labels - {""}):
        domain = Domain({label: [label, "other"], "z": [0, 1]})
        text = f"z=1, {label_text(label)}={label_text(label)}"
        assert parse_conditions(text, domain) == [("z", 1), (label, label)]
        text = f"{label_text(label)} in {{{label_text(label)}, other}}, z=1"
        assert parse_conditions(text, domain) == [(label, OneOf(label, "other")), ("z", 1)]


def test_kinds_of_values():
    assert evidence_of(PLACES, None).given == {}
    with pytest.raises(ModelError, match="mapping"):
        evidence_of(PLACES, ["age=20"])
    with pytest.raises(DataError, match="either above or at_least"):
        Range(above=1, at_least=2)
    with pytest.raises(DataError, match="at least one of"):
        Range()
    with pytest.raises(ModelError, match="not an event"):
        cj.probability(
            random_model("features and factors", 0)[1], {"n": Marginal({1: 1.0})}, method="exact"
        )
    tuples = Domain({"t": [("a", 1), ("b", 2)]})
    assert evidence_of(tuples, {"t": ("a", 1)}).states == {0: 0}
    numpy = evidence_of(
        PLACES,
        {"age": Range(above=np.float64(25)), "day": Range(below=np.datetime64("2024-02-01"))},
    )
    assert numpy.states[4] == 0 and np.exp(numpy.likelihoods[3]).tolist() == [0, 1, 1]


def test_a_column_that_was_left_out_is_named(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "id": [f"r{i}" for i in range(120)],
        "kids": rng.integers(0, 3, 120),
        "pay": rng.normal(0, 1, 120),
        "none": [None] * 120,
    })  # fmt: skip
    with pytest.warns(DataWarning, match="left out: 'id'"):
        model = JointModel(effort="quick").fit(frame)
    assert model.left_out_ == ("id", "none")
    said = "column 'id' was left out of the model.*include"
    for given in ("id=r1", {"id": "r1"}, 'kids=1, "id"=r1'):
        for ask in (cj.marginals, cj.most_probable, cj.log_partition, model.marginals):
            with pytest.raises(DataError, match=said):
                ask(given) if ask == model.marginals else ask(model, given)
        with pytest.raises(DataError, match=said):
            cj.probability(model, given)
        with pytest.raises(DataError, match=said):
            model.sample(3, given)
        with pytest.raises(DataError, match=said):
            what_if(model, "kids=1", given)
    with pytest.raises(DataError, match="no variable 'ids'. Did you mean 'kids'"):
        cj.marginals(model, "ids=r1")
    table, file = tmp_path / "t.csv", str(tmp_path / "m.conjoin")
    frame.to_csv(table, index=False)
    command = ["learn", str(table), "-o", file, "--effort", "quick", "--exclude", "pay"]
    frame["more"] = rng.normal(0, 1, 120)
    frame.to_csv(table, index=False)
    assert main(command) == 0
    capsys.readouterr()
    for arguments in (
        ["query", file, "--given", "id=r1"],
        ["query", file, "--target", "id"],
        ["query", file, "--probability", "id=r1"],
        ["sample", file, "-n", "3", "-o", str(tmp_path / "s.csv"), "--given", "id=r1"],
        ["predict", file, str(table), "--target", "id"],
    ):
        assert main(arguments) == 1
        assert capsys.readouterr().err == (
            "conjoin: column 'id' was left out of the model (120 different values in 120 rows); "
            "learn with include=['id'], or --include on the command line, to keep it\n"
        )
    for name, why in (("none", "no values"), ("pay", "excluded")):
        assert main(["query", file, "--given", f"{name}=1"]) == 1
        said = f"conjoin: column {name!r} was left out of the model ({why})\n"
        assert capsys.readouterr().err == said
