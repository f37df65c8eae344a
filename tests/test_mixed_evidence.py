"""Evidence of every kind in models with numbers, against sums over all states and integrals."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import conjoin as cj
from conjoin import Domain, JointModel
from conjoin.cli.main import main
from conjoin.data.mixed_table import MixedDomain
from conjoin.data.number_scale import NumberScale
from conjoin.errors import ConjoinError, DataError, ModelError
from conjoin.inference.condition_text import conditions_text
from conjoin.inference.conditions import AllOf, Likelihood, Marginal, Not, OneOf, Range
from conjoin.inference.mixed_evidence import MixedKnown, read_given
from conjoin.inference.mixed_questions import marginals, probability
from conjoin.inference.plan import Plan
from conjoin.models.number_map import NumberMap
from mixed_reference import slow_probability
from test_mixed import random_model as any_model

SEEDS = range(3)


def random_model(seed, binned=True):
    """A model whose knots and cuts are between recorded values."""
    rng = np.random.default_rng([seed, 1])
    model = any_model(seed, binned=binned)
    maps = []
    for mapped in model.maps:
        inner = np.sort(rng.choice(np.arange(1, 20), 5, replace=False)) + 0.5
        values = np.array([-6.0, *inner, 26.0])
        maps.append(NumberMap(values, np.linspace(-3, 3, 7), 1.0, mapped.atoms))
    if not binned:
        return replace(model, maps=tuple(maps))
    gaussian, bins = model.components
    edges = [np.sort(rng.choice(np.arange(1, 19), 2, replace=False)) + 0.5 for _ in maps]
    cuts = tuple(mapped.to_scores(x) for mapped, x in zip(maps, edges, strict=True))
    return replace(model, maps=tuple(maps), components=(gaussian, replace(bins, cuts=cuts)))


INFINITE = np.inf
BELOW, ABOVE = Range(below=6), Range(at_least=6)

CASES = [
    ({"p": Range(above=4)}, {"p": [(4.5, INFINITE, 1)]}),
    ({"q": Range(at_least=3, below=11)}, {"q": [(2.5, 10.5, 1)]}),
    ({"r": Not(5)}, {"r": [(-INFINITE, 4.5, 1), (5.5, INFINITE, 1)]}),
    ({"q": OneOf(2, 7, 9), "a": "u"}, {"q": [(x - 0.5, x + 0.5, 1) for x in (2, 7, 9)], "a": {"u": 1}}),
    ({"p": Range(at_most=6), "b": {"x", "z"}}, {"p": [(-INFINITE, 6.5, 1)], "b": {"x": 1, "z": 1}}),
    ({"p": 5, "b": Likelihood({"x": 0.2, "y": 1, "z": 3})}, {"p": 5.0, "b": {"x": 0.2, "y": 1, "z": 3}}),
    ({"p": 5, "r": Range(above=2, at_most=12)}, {"p": 5.0, "r": [(2.5, 12.5, 1)]}),
    ({"r": 5, "p": Range(above=2, at_most=12)}, {"r": 5.0, "p": [(2.5, 12.5, 1)]}),
    ({"q": 7, "a": Not("u")}, {"q": 7.0, "a": {"v": 1}}),
    ({"q": Likelihood({BELOW: 0.5, Range(at_least=6, below=9): 2, Range(at_least=9): 0}), "r": 4},
     {"q": [(-INFINITE, 5.5, 0.5), (5.5, 8.5, 2)], "r": 4.0}),
    ({"r": AllOf((Likelihood({BELOW: 3, ABOVE: 1}), Range(above=2)))},
     {"r": [(2.5, 5.5, 3), (5.5, INFINITE, 1)]}),
]  # fmt: skip


def also(known, name, low, high):
    """Evidence of the reference with one more range."""
    lines = known.get(name, [(-INFINITE, INFINITE, 1)])
    if not isinstance(lines, list):
        return known | {name: lines} if low < lines < high else None
    both = [(max(low, a), min(high, b), w) for a, b, w in lines]
    return known | {name: [(a, b, w) for a, b, w in both if a < b]}


def slow_cdf(model, known, name, x):
    below = also(known, name, -INFINITE, x + 0.5)
    return slow_probability(model, below) / slow_probability(model, known) if below else 0.0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", range(len(CASES)))
def test_answers_given_any_evidence(case, seed):
    model = random_model(seed)
    given, true = CASES[case]
    whole = slow_probability(model, true)
    known = MixedKnown(model, given)
    assert np.exp(known.log_probability) == pytest.approx(whole, rel=1e-9)
    for name in ("a", "b"):
        states = model.domain.categories[name].states
        own = true.get(name, dict.fromkeys(states, 1))
        parts = [slow_probability(model, true | {name: {s: own.get(s, 0)}}) for s in states]
        np.testing.assert_allclose(known.category(name), np.array(parts) / whole, atol=1e-9)
    for name in model.numbers:
        found = known.number(name)
        exact = name in true or not any(isinstance(x, list) for x in true.values())
        for x in (1, 6, 7, 10) if exact else (6,):
            expected = slow_cdf(model, true, name, x)
            assert found.cdf(x) == pytest.approx(expected, abs=1e-9 if exact else 1e-5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("given", "true"),
    [
        ("p > 4, r <= 9", {"p": [(4.5, INFINITE, 1)], "r": [(-INFINITE, 9.5, 1)]}),
        ("2 <= p < 9, q >= 5, a=u",
         {"p": [(1.5, 8.5, 1)], "q": [(4.5, INFINITE, 1)], "a": {"u": 1}}),
        ("q=4, p > 4, r != 6",
         {"q": 4.0, "p": [(4.5, INFINITE, 1)], "r": [(-INFINITE, 5.5, 1), (6.5, INFINITE, 1)]}),
    ],
)  # fmt: skip
def test_several_ranges(given, true, seed):
    model = random_model(seed)
    whole = slow_probability(model, true)
    known = MixedKnown(model, given)
    assert np.exp(known.log_probability) == pytest.approx(whole, rel=1e-8)
    states = model.domain.categories["b"].states
    parts = [slow_probability(model, true | {"b": {s: 1}}) for s in states]
    np.testing.assert_allclose(known.category("b"), np.array(parts) / whole, atol=1e-9)
    expected = slow_cdf(model, true, "p", 7)
    assert known.number("p").cdf(7) == pytest.approx(expected, abs=1e-5)


def test_three_ranges_and_a_number_given_two():
    model = random_model(0, binned=False)
    true = {"p": [(4.5, INFINITE, 1)], "r": [(3.5, 12.5, 1)]}
    two = slow_probability(model, true)
    three = slow_probability(model, true | {"q": [(-INFINITE, 9.5, 1)]})
    known = MixedKnown(model, "p > 4, q <= 9, 4 <= r < 13")
    assert np.exp(known.log_probability) == pytest.approx(three, rel=1e-5)
    q = MixedKnown(model, "p > 4, 4 <= r < 13").number("q")
    assert q.cdf(9) == pytest.approx(three / two, abs=1e-4)


def test_networks_are_asked_once_per_evidence_on_categories(monkeypatch):
    """Ranges and targets do not matter to the junction tree of a network with Gaussian states."""
    asked, expect = [], Plan.expect
    monkeypatch.setattr(Plan, "expect", lambda *args: asked.append(1) or expect(*args))
    model = random_model(0, binned=False)
    for text in ("p > 4, r < 9", "p <= 7, r > 2", "p=3"):
        marginals(MixedKnown(model, text))
    assert len(asked) == 1
    marginals(MixedKnown(model, "p > 4, r < 9, a=u"))
    assert len(asked) == 2
    marginals(MixedKnown(model, "q > 4, a=u"))  # q is its atom, or not
    assert len(asked) == 4


def test_many_sets_of_states():
    """Five sets of nine states have 59,049 cases; two sets agree with the sums over all their states."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 10, 400)
    frame = pd.DataFrame(
        {f"c{i}": [f"s{x}" for x in (first + rng.integers(0, 3, 400)) % 10] for i in range(5)}
    )
    frame["x"] = (first + rng.normal(0, 1, 400)).round(2)
    model = JointModel(effort="quick").fit(frame)
    text = ", ".join(f"c{i} != s{i}" for i in range(5))
    whole = cj.marginals(model, f"{text}, x > 4")
    assert whole["c1"]["s1"] == 0 and sum(whole["c1"].values()) == pytest.approx(1)
    sets = "c0 != s3, c1 in {s1, s2, s3, s4}"
    found = cj.marginals(model, f"{sets}, x=4")
    draw = cj.sample(model, 50, f"{sets}, x=4")
    assert not (draw.categories.codes[:, 0] == draw.categories.domain["c0"].index("s3")).any()
    states = [(f"s{i}", f"s{j}") for i in range(10) if i != 3 for j in range(1, 5)]
    slow = {name: dict.fromkeys(found[name], 0.0) for name in ("c0", "c1", "c2", "c4")}
    total = 0.0
    for one, other in states:
        given = {"c0": one, "c1": other, "x": 4}
        p = np.exp(cj.log_partition(model, given).value)
        total += p
        answer = cj.marginals(model, given)
        for name, by_state in slow.items():
            for state, q in answer[name].items():
                by_state[state] += p * q
    for name, by_state in slow.items():
        assert found[name] == pytest.approx({s: p / total for s, p in by_state.items()}, abs=1e-9)
    together = sum(float(cj.probability(model, {"c0": a, "c1": b})) for a, b in states)
    assert float(cj.probability(model, sets)) == pytest.approx(together, rel=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_events_given_evidence(seed):
    model = random_model(seed)
    known = MixedKnown(model, "r=5")
    for event, more in [("q > 4", {"q": [(4.5, INFINITE, 1)]}), ("p=3", {"p": [(2.5, 3.5, 1)]})]:
        for extra in ({}, {"a": "u"}):
            true = {"r": 5.0, **{n: {s: 1} for n, s in extra.items()}}
            expected = slow_probability(model, true | more) / slow_probability(model, {"r": 5.0})
            text = event + ", a=u" * bool(extra)
            assert float(probability(known, text)) == pytest.approx(expected, abs=1e-9)
    assert probability(known, "r=5") == 1.0 and probability(known, "r > 5") == 0.0
    assert known.number("p").probability(3, 3) == pytest.approx(
        float(probability(known, "p=3")), abs=1e-9
    )
    both = MixedKnown(model, "p <= 6").both("q > 4 and a=u")
    true = {"p": [(-INFINITE, 6.5, 1)], "q": [(4.5, INFINITE, 1)], "a": {"u": 1}}
    assert np.exp(both.log_probability) == pytest.approx(slow_probability(model, true), rel=1e-9)
    assert probability(MixedKnown(model, "p <= 6"), "p > 8") == 0.0


@pytest.mark.parametrize("seed", SEEDS)
def test_new_marginals(seed):
    model = random_model(seed)
    q = np.array([0.2, 0.5, 0.3])
    given = {"b": Marginal({"x": 0.2, "y": 0.5, "z": 0.3}), "p": Range(above=4)}
    found = MixedKnown(model, given)
    np.testing.assert_allclose(found.category("b"), q, atol=1e-12)
    parts = [MixedKnown(model, {"b": s, "p": Range(above=4)}).category("a") for s in "xyz"]
    np.testing.assert_allclose(found.category("a"), q @ np.array(parts), atol=1e-9)
    assert float(probability(found, "a=u")) == pytest.approx(found.category("a")[0], abs=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_new_marginals_of_numbers(seed):
    """Jeffrey's rule: given each range, everything stays what it was."""
    model = random_model(seed)
    ranges = {Range(below=4): 0.3, Range(at_least=4, below=9): 0.2, Range(at_least=9): 0.5}
    found = MixedKnown(model, {"q": Marginal(ranges), "r": 3})
    q = np.array(list(ranges.values()))
    number = found.number("q")
    assert number.probability(high=3) == pytest.approx(0.3, abs=1e-9)
    assert number.probability(4, 8) == pytest.approx(0.2, abs=1e-9)
    parts = [MixedKnown(model, {"q": part, "r": 3}) for part in ranges]
    np.testing.assert_allclose(found.category("a"), q @ [x.category("a") for x in parts], atol=1e-9)
    for x in (2, 7, 12):
        expected = q @ [part.number("q").cdf(x) for part in parts]
        assert number.cdf(x) == pytest.approx(expected, abs=1e-9)
        expected = q @ [part.number("p").cdf(x) for part in parts]
        assert found.number("p").cdf(x) == pytest.approx(expected, abs=1e-6)
    both = MixedKnown(model, {"q": Marginal(ranges), "b": Marginal({"x": 0.5, "z": 0.5})})
    assert both.category("b") == pytest.approx([0.5, 0, 0.5], abs=1e-9)
    assert both.number("q").probability(high=3) == pytest.approx(0.3, abs=1e-9)
    assert both.both("a=u").category("b").sum() == pytest.approx(1)
    drawn = found.sample(3000, 1).column("q")
    assert (drawn < 4).mean() == pytest.approx(0.3, abs=0.03)


def test_soft_evidence_on_ranges_as_text():
    domain = random_model(0).domain
    text = "p likelihood {p < 4: 0.5, 4 <= p < 9: 2, >= 9: 1}, q marginal {<= 7: 0.25, 8: 0.75}"
    read = read_given(domain, text)
    middle = Range(at_least=4, below=9)
    assert read["p"] == Likelihood({Range(below=4): 0.5, middle: 2, Range(at_least=9): 1})
    assert read["q"] == Marginal({Range(at_most=7): 0.25, 8: 0.75})
    again = read_given(domain, conditions_text(read))
    assert again == read


def test_draws_agree_with_the_evidence():
    model = random_model(1)
    known = MixedKnown(model, "p > 4, b in {x, y}")
    drawn = known.sample(4000, 3)
    assert drawn.column("p").min() >= 5
    codes = drawn.categories.codes
    assert set(codes[:, 1].tolist()) <= {0, 1}
    for i, name in enumerate(("a", "b")):
        frequency = np.bincount(codes[:, i], minlength=2 + i) / 4000
        np.testing.assert_allclose(frequency, known.category(name), atol=0.04)
    for name in model.numbers:
        below = (drawn.column(name) <= 8).mean()
        assert below == pytest.approx(known.number(name).cdf(8), abs=0.04)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("p > old", "'old'"),
        ("p likelihood {1: 2}", "no likelihood for p = 0"),
        ("p likelihood {p < 4: 2, p > 5: 1}", "no likelihood for p = 4"),
        ("p likelihood {p < 4: 2, p > 2: 1}", "values in common, such as 3"),
        ("p likelihood {q < 4: 2, p > 2: 1}", "'q < 4' is not a number"),
        ("p marginal {p < 4: 0.5, p > 4: 0.6}", "sum to 1.1"),
        ("p marginal {p < 4: 0.5, p > 4: 0.5}, p > 6", "cannot be reached"),
        ("p likelihood {p < 4: -2, p >= 4: 1}", "must be 0 or more"),
        ("a > 3", "in no order"),
        ("pp > 3", "there is no variable 'pp'"),
        ("p > 5, p < 3", "impossible"),
    ],
)
def test_mistakes(text, words):
    with pytest.raises(ConjoinError) as error:
        MixedKnown(random_model(0), text).category("a")
    assert words in str(error.value)


def test_mistakes_in_mappings():
    domain = random_model(0).domain
    for value in ((20, 30), range(20, 30), "> 40"):
        with pytest.raises(DataError, match=r"give Range\(.*'20 <= p < 30'"):
            read_given(domain, {"p": value})
    with pytest.raises(DataError, match="Likelihood.* or Marginal"):
        read_given(domain, {"a": {"u": 0.9, "v": 0.1}})
    assert read_given(domain, {"p": None, "a": float("nan")}) == {}
    days = NumberScale.of("day", ["2024-01-01", "2024-02-01"])
    dated = MixedDomain(Domain([]), (days,), ("day",))
    with pytest.raises(DataError, match="2020 is not a date"):
        read_given(dated, {"day": 2020})
    assert read_given(dated, "day > 2024-01-15")["day"] == Range(above=datetime.date(2024, 1, 15))


def test_texts_and_mappings_are_the_same():
    domain = random_model(0).domain
    text = "p=3, q > 4, r in {1, 2}, a != u, 2 <= r < 9"
    read = read_given(domain, text)
    assert read["p"] == 3 and read["q"] == Range(above=4) and read["a"] == Not("u")
    assert read["r"].parts() == (OneOf(1, 2), Range(at_least=2, below=9))


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, 600)
    income = np.where(rng.random(600) < 1 / (1 + np.exp((50 - age) / 6)), "high", "low")
    frame = pd.DataFrame({"age": age, "income": income, "city, state": rng.choice(["A", "B"], 600)})
    return frame, JointModel(effort="quick").fit(frame)


def test_estimators_with_numbers_take_any_evidence(people):
    frame, model = people
    old = frame[frame["age"] > 60]
    found = model.marginals("age > 60")
    assert found["income"]["high"] == pytest.approx((old["income"] == "high").mean(), abs=0.1)
    assert found["age"].cdf(60) == pytest.approx(0, abs=1e-9) and found["age"].mean() > 65
    assert "numerical integration" in repr(found)
    same = cj.marginals(model, {"age": Range(above=60)}, targets=["income"])
    assert same["income"] == pytest.approx(found["income"]) and list(same) == ["income"]
    p = cj.probability(model, "age > 60 and income=high", '"city, state" in {A, B}')
    true = ((frame["age"] > 60) & (frame["income"] == "high")).mean()
    assert float(p) == pytest.approx(true, abs=0.06)
    assert float(cj.probability(model, "age < 10, age > 20")) == 0
    drawn = model.sample(200, "age <= 30, income != low")
    assert drawn["age"].max() <= 30 and set(drawn["income"]) == {"high"}
    assert model.most_probable("age > 80")["income"] == "high"
    assert model.marginals({"age": 70})["age"] == {70: 1.0}


def test_what_to_ask_if_there_are_numbers(people):
    _, model = people
    first, second = cj.next_questions(model, "income")
    assert (first.name, second.name) == ("age", "city, state")
    assert first.information > 0.2 > second.information
    assert sum(first.answers.values()) == pytest.approx(1, abs=1e-6)
    assert [q.name for q in cj.next_questions(model, "age", "income=low")] == ["city, state"]
    with pytest.raises(ModelError, match="is given"):
        cj.next_questions(model, "age", {"age": 40})


def test_odd_numbers_and_states(people):
    frame, model = people
    rows = frame.head(40).copy()
    rows.loc[3, ["age", "income"]] = [85, "low"]
    rows["income"] = rows["income"].astype(object)
    rows.loc[5, "income"] = "hihg"
    found = cj.surprises(model, rows)
    first, second = found[:2]
    assert found.words(0).startswith(f"row 5: income=hihg (0), rather {first.suggestion} (")
    odd = next(k for k, cell in enumerate(found) if (cell.row, cell.column) == (3, "age"))
    low, high = model.distribution(rows.drop(columns="age")[3:4], "age").interval(0.8)
    words = found.words(odd, first_row=1)
    assert words.startswith("row 4: age=85 (0") and words.endswith(
        f"as extreme), rather {low} to {high} (80%)"
    )
    assert words.replace("row 4", "row 3") in repr(found)
    assert (first.row, first.column, first.value, first.probability) == (5, "income", "hihg", 0)
    assert second.row == 3


def test_numbers_on_the_command_line(people, tmp_path, capsys):
    _, model = people
    path = str(tmp_path / "m.conjoin")
    cj.save(model.model_, path)
    assert main(["query", path, "--given", 'age > 60, "city, state"=A', "--target", "income"]) == 0
    assert 'given age > 60, "city, state"=A (numerical integration: over' in capsys.readouterr().out
    assert main(["query", path, "--probability", "20 <= age < 40", "--given", "income=low"]) == 0
    assert capsys.readouterr().out.startswith("P(20 <= age < 40 | income=low) = 0.")
    assert main(["query", path, "--next", "income", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["questions"][0]["name"] == "age"
    assert main(["query", path, "--given", "city, state=A"]) == 1
    assert '"city, state"=A' in capsys.readouterr().err
    out = tmp_path / "s.csv"
    assert main(["sample", path, "-n", "50", "--given", "age < 30", "-o", str(out)]) == 0
    assert pd.read_csv(out)["age"].max() < 30
    assert main(["check", path, str(out), "-o", str(tmp_path / "odd.csv"), "--top", "3"]) == 0
    assert len((tmp_path / "odd.csv").read_text(encoding="utf-8").splitlines()) == 4
