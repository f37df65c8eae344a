"""Evidence of every kind in models with numbers, against sums over all recorded values."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

import conjoin as cj
from conjoin import JointModel
from conjoin.cli.main import main
from conjoin.errors import ConjoinError, ModelError
from conjoin.inference.conditions import Likelihood, Marginal, Not, OneOf, Range
from conjoin.inference.mixed import MixedAnswers
from conjoin.inference.mixed_evidence import MixedKnown, read_given
from conjoin.models.number_map import NumberMap
from test_mixed import random_model as any_model
from test_mixed import rows_of

VALUES = np.arange(-60, 81)
SEEDS = range(3)


def random_model(seed):
    """A model whose recorded values all lie among VALUES."""
    rng = np.random.default_rng([seed, 1])
    model = any_model(seed)
    maps = []
    for mapped in model.maps:
        inner = np.sort(rng.choice(np.arange(1, 20), 5, replace=False)) + 0.5
        values = np.array([-6.0, *inner, 26.0])
        maps.append(NumberMap(values, np.linspace(-3, 3, 7), 1.0, mapped.atoms))
    gaussian, binned = model.components
    edges = [np.sort(rng.choice(np.arange(1, 19), 2, replace=False)) + 0.5 for _ in maps]
    cuts = tuple(mapped.to_scores(x) for mapped, x in zip(maps, edges, strict=True))
    return replace(model, maps=tuple(maps), components=(gaussian, replace(binned, cuts=cuts)))


def slow_sum(model, weights):
    """The sum over all rows of known columns, {column: {value: weight}}; and the table of weights."""
    names = list(weights)
    cells = list(product(*(weights[name].items() for name in names)))
    rows = [{name: value for name, (value, _) in zip(names, cell, strict=True)} for cell in cells]
    factor = np.array([np.prod([w for _, w in cell]) for cell in cells])
    p = np.exp(MixedAnswers(model, rows_of(model, rows)).log_mass()) * factor
    return rows, p


def allowed(test):
    return {float(x): 1.0 for x in VALUES if test(x)}


CASES = [
    ({"p": Range(above=4)}, {"p": allowed(lambda x: x > 4)}),
    ({"q": Range(at_least=3, below=11)}, {"q": allowed(lambda x: 3 <= x < 11)}),
    ({"r": Not(5)}, {"r": allowed(lambda x: x != 5)}),
    ({"q": OneOf(2, 7, 9), "a": "u"}, {"q": allowed(lambda x: x in (2, 7, 9)), "a": {"u": 1.0}}),
    ({"p": Range(at_most=6), "b": {"x", "z"}}, {"p": allowed(lambda x: x <= 6), "b": {"x": 1, "z": 1}}),
    (
        {"p": 5, "b": Likelihood({"x": 0.2, "y": 1, "z": 3})},
        {"p": {5.0: 1.0}, "b": {"x": 0.2, "y": 1.0, "z": 3.0}},
    ),
    ({"p": 5, "r": Range(above=2, at_most=12)}, {"p": {5.0: 1.0}, "r": allowed(lambda x: 2 < x <= 12)}),
    ({"q": 7, "a": Not("u")}, {"q": {7.0: 1.0}, "a": {"v": 1.0}}),
]  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", range(len(CASES)))
def test_answers_given_any_evidence(case, seed):
    model = random_model(seed)
    given, weights = CASES[case]
    rows, p = slow_sum(model, weights)
    known = MixedKnown(model, given)
    assert np.exp(known.log_probability) == pytest.approx(p.sum(), rel=1e-5)
    answers = MixedAnswers(model, rows_of(model, rows))
    for name in ("a", "b"):
        if name in weights:
            states = model.domain.categories[name].states
            true = np.array([p[[r[name] == s for r in rows]].sum() for s in states]) / p.sum()
        else:
            true = p @ answers.category(name) / p.sum()
        np.testing.assert_allclose(known.category(name), true, atol=1e-6)
    for name in model.numbers:
        found = known.number(name)
        for x in (1, 6, 7, 10):
            if name in weights:
                true = p[[r[name] <= x for r in rows]].sum() / p.sum()
            else:
                true = float(p @ answers.number(name).cdf(np.full(len(rows), float(x))) / p.sum())
            assert found.cdf(x) == pytest.approx(true, abs=0.02)  # cells are wide here


@pytest.mark.parametrize("seed", SEEDS)
def test_events_and_new_marginals(seed):
    model = random_model(seed)
    known = MixedKnown(model, "p <= 6")
    both = known.both("q > 4 and a=u")
    weights = {"p": allowed(lambda x: x <= 6), "q": allowed(lambda x: x > 4), "a": {"u": 1.0}}
    _, p = slow_sum(model, weights)
    assert np.exp(both.log_probability) == pytest.approx(p.sum(), rel=0.02)  # fewer cells each
    assert (
        known.both("p > 8").log_probability == -np.inf
        if known.both("p > 8")._cases["p"].values.size
        else True
    )
    q = np.array([0.2, 0.5, 0.3])
    given = {"b": Marginal({"x": 0.2, "y": 0.5, "z": 0.3}), "p": Range(above=4)}
    found = MixedKnown(model, given)
    np.testing.assert_allclose(found.category("b"), q, atol=1e-12)
    parts = [MixedKnown(model, {"b": s, "p": Range(above=4)}).category("a") for s in "xyz"]
    np.testing.assert_allclose(found.category("a"), q @ np.array(parts), atol=1e-6)
    ratio = np.exp(
        found.both("a=u").log_probability - MixedKnown(model, given, found.fitted).log_probability
    )
    assert ratio == pytest.approx(found.category("a")[0], abs=1e-6)


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
        ("p likelihood {1: 2}", "likelihood needs states"),
        ("a > 3", "not numbers"),
        ("pp > 3", "there is no variable 'pp'"),
        ("p > 5, p < 3", "impossible"),
    ],
)
def test_mistakes(text, words):
    with pytest.raises(ConjoinError) as error:
        MixedKnown(random_model(0), text).category("a")
    assert words in str(error.value)


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
    assert "integrated numerically" in repr(found)
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
    first, second = cj.surprises(model, rows)[:2]
    assert (first.row, first.column, first.value, first.probability) == (5, "income", "hihg", 0)
    assert second.row == 3


def test_numbers_on_the_command_line(people, tmp_path, capsys):
    _, model = people
    path = str(tmp_path / "m.conjoin")
    cj.save(model.model_, path)
    assert main(["query", path, "--given", 'age > 60, "city, state"=A', "--target", "income"]) == 0
    assert 'given age > 60, "city, state"=A (exact: ranges' in capsys.readouterr().out
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
