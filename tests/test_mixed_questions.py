"""Questions to models with numbers: two columns at once, what if, the most probable row."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest

import conjoin as cj
from conjoin import JointModel
from conjoin.cli.main import main
from conjoin.errors import ConjoinError, ModelError
from conjoin.inference import joint
from conjoin.inference.conditions import Likelihood, Range
from conjoin.inference.engines import log_partition, most_probable
from conjoin.inference.mixed import MixedAnswers, log_density
from conjoin.inference.mixed_evidence import MixedKnown
from conjoin.inference.mixed_mode import jointly
from conjoin.inference.scenarios import what_if
from conjoin.reports.heat_map import heat_map
from mixed_reference import slow_probability
from test_mixed import rows_of
from test_mixed_evidence import random_model

SEEDS = range(3)
INFINITE = np.inf


@pytest.mark.parametrize("seed", SEEDS)
def test_two_columns_at_once(seed):
    model = random_model(seed)
    found = joint(model, ["b", "a"], {"p": 3})
    whole = slow_probability(model, {"p": 3.0})
    for b, a in product("xyz", "uv"):
        true = slow_probability(model, {"p": 3.0, "a": {a: 1}, "b": {b: 1}}) / whole
        assert found[b, a] == pytest.approx(true, abs=1e-9)
    found = joint(model, ["b", "q"], {"p": 3}, bins={"q": [4, 9]})
    lines = [(-INFINITE, 3.5, 1), (3.5, 8.5, 1), (8.5, INFINITE, 1)]
    assert found.domain["q"].states == ("below 4", "4 to 8", "9 or more")
    for (i, b), (k, line) in product(enumerate("xyz"), enumerate(lines)):
        true = slow_probability(model, {"p": 3.0, "b": {b: 1}, "q": [line]}) / whole
        assert found.table[i, k] == pytest.approx(true, abs=1e-9)
    found = joint(model, ["q", "r"], bins={"q": [4, 9], "r": [6]})
    for (i, line), (k, low) in product(enumerate(lines), enumerate((-INFINITE, 5.5))):
        true = slow_probability(model, {"q": [line], "r": [(low, (5.5, INFINITE)[k], 1)]})
        assert found.table[i, k] == pytest.approx(true, abs=0.01)
    assert found.table.sum() == pytest.approx(1, abs=1e-12)
    assert not found.run.exact  # the numbers of the first column are integrated
    deciles = joint(model, ["r", "a"], bins=4)
    assert deciles.table.sum(axis=1).max() < 0.55 and "up to" in deciles.domain["r"].states[0]
    assert joint(model, ["r", "a"], {"r": 3}).table.shape == (1, 2)
    assert "<svg" in heat_map(deciles)
    for wrong, words in [({"q": [9, 4]}, "increase"), ({"a": [1]}, "states"), (0, "ranges")]:
        with pytest.raises(ConjoinError, match=words):
            joint(model, ["q", "a"], bins=wrong)


def slow_best(model, known, free):
    """The most probable row among all values of the columns that are free."""
    grids = [
        np.arange(-8, 28.0) if n in model.numbers else model.domain.categories[n].states
        for n in free
    ]
    rows = [known | dict(zip(free, values, strict=True)) for values in product(*grids)]
    return rows, MixedAnswers(model, rows_of(model, rows)).log_likelihood()


@pytest.mark.parametrize("seed", range(6))
def test_the_most_probable_row(seed):
    model = random_model(seed)
    known = {"a": "u", "r": 3} if seed % 2 else {"q": 7}
    free = [n for n in model.names if n not in known]
    rows, logs = slow_best(model, known, free)
    found = most_probable(model, known)
    assert found.score == pytest.approx(logs.max(), abs=1e-9)
    assert {n: found[n] for n in model.names} == rows[int(logs.argmax())]
    assert not found.run.exact and "another row may be more probable" in str(found.run)
    one = rows_of(model, [{n: found[n] for n in model.names}])
    assert found.score == pytest.approx(log_density(model, one)[0], abs=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_most_probable_row_given_ranges_and_likelihoods(seed):
    model = random_model(seed)
    given = {"p": Range(above=8), "b": Likelihood({"x": 1, "y": 5, "z": 0}), "r": 3}
    rows, logs = slow_best(model, {"r": 3}, ["a", "b", "p", "q"])
    weight = {"x": 0.0, "y": np.log(5), "z": -np.inf}
    logs = logs + [weight[row["b"]] + (0.0 if row["p"] > 8 else -np.inf) for row in rows]
    found = most_probable(model, given)
    assert found.score == pytest.approx(logs.max(), abs=1e-9)
    assert found["p"] > 8
    certain = most_probable(model, {"a": "u", "b": "x", "p": 1, "q": 7, "r": 2})
    assert certain.run.exact and certain["q"] == 7
    with pytest.raises(ModelError, match="ascent"):
        most_probable(model, method="ilp")


def test_rows_are_filled_in_together():
    """The ascent from the mode of each column finds the best row here; it need not do so always."""
    model = random_model(2)
    table = rows_of(
        model, [{"r": 2}, {"q": 7, "p": 3, "r": 4}, {"p": 4, "a": "u", "b": "y", "q": 3}]
    )
    alone = MixedAnswers(model, table).likely("mode")
    filled = jointly(model, table, alone, True)
    _, logs = slow_best(model, {"r": 2}, ["a", "b", "p", "q"])
    assert MixedAnswers(model, filled).log_likelihood()[0] == pytest.approx(logs.max(), abs=1e-9)
    for i, known in enumerate([{"r": 2}, {"q": 7, "p": 3, "r": 4}]):
        states = jointly(model, table, MixedAnswers(model, table).likely("mean"), False)
        rows, logs = slow_best(model, known, ["a", "b"])
        best = rows[int(logs.argmax())]
        names = model.domain.categories.names
        codes = states.categories.codes[i].tolist()
        assert {
            n: model.domain.categories[n].states[c] for n, c in zip(names, codes, strict=True)
        } == {n: best[n] for n in names}
    assert (filled.numbers[2] == alone.numbers[2]).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_probability_of_evidence(seed):
    model = random_model(seed)
    found = log_partition(model, {"p": 3, "q": Range(above=4), "a": "u"})
    true = slow_probability(model, {"p": 3.0, "q": [(4.5, INFINITE, 1)], "a": {"u": 1}})
    assert np.exp(found.value) == pytest.approx(true, rel=1e-9)
    assert log_partition(model).value == pytest.approx(0, abs=1e-9)
    with pytest.raises(ModelError, match="no observation"):
        log_partition(model, "p marginal {p < 4: 0.5, p >= 4: 0.5}")


@pytest.mark.parametrize("seed", SEEDS)
def test_what_if_there_are_numbers(seed):
    model = random_model(seed)
    found = what_if(model, "a=u, r=3", ["r > 10", {"a": None}, {"r": 5}])
    assert found.changes == ["r > 10", "forget a", "r=5"]
    for answer, given in zip(
        found.answers, ["a=u, r=3", "a=u, r > 10", "r=3", "a=u, r=5"], strict=True
    ):
        known = MixedKnown(model, given)
        assert set(answer) == {"b", "p", "q"}
        assert list(answer["b"].values()) == pytest.approx(known.category("b").tolist())
        assert answer["p"].mean() == pytest.approx(known.number("p").mean())
    assert "p: mean" in repr(found) and "b=x" in repr(found)
    assert 0 < found.moved("p") <= 1
    only = what_if(model, "a=u, r=3", "r=9", targets=["a"])
    assert list(only.answers[0]) == ["a"] and 0 < only.answers[0]["a"]["u"] < 1


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, 500)
    income = np.where(rng.random(500) < 1 / (1 + np.exp((50 - age) / 6)), "high", "low")
    seen = pd.to_datetime("2024-01-01") + pd.to_timedelta(age * 3, unit="D")
    frame = pd.DataFrame({"age": age, "income": income, "seen": seen})
    return frame, JointModel(effort="quick").fit(frame)


def test_a_fitted_model_answers_all_questions(people):
    frame, model = people
    table = joint(model, ["income", "age"], bins={"age": [40, 60]}).table
    true = ((frame["age"] >= 60) & (frame["income"] == "high")).mean()
    assert table[list(model.states("income")).index("high"), 2] == pytest.approx(true, abs=0.06)
    best = model.most_probable("age > 60")
    assert best["income"] == "high" and best["age"] > 60 and not best.run.exact
    assert cj.most_probable(model, "age > 60")["income"] == "high"
    moved = what_if(model, {"age": 30}, {"age": 80}, targets=["income"])
    assert moved.answers[0]["income"]["high"] < 0.3 < moved.answers[1]["income"]["high"]
    shifted = model.marginals("age marginal {age < 40: 0.9, age >= 40: 0.1}")
    assert shifted["age"].cdf(39) == pytest.approx(0.9, abs=1e-9)
    assert shifted["income"]["low"] > 0.7
    rows = frame.head(20).astype(object)
    rows.loc[3, ["age", "income"]] = None
    filled = model.impute(rows, numbers="mode")
    assert isinstance(filled["age"][3], int) and filled["income"][3] in ("high", "low")


def test_the_same_on_the_command_line(people, tmp_path, capsys):
    _, model = people
    path, picture = str(tmp_path / "m.conjoin"), tmp_path / "joint.svg"
    cj.save(model.model_, path)

    def said(*arguments):
        assert main(["query", path, *arguments]) == 0
        return capsys.readouterr()

    out = said("--joint", "income", "--joint", "age", "--picture", str(picture)).out
    assert "income \\ age" in out and "above" in out
    assert picture.read_text(encoding="utf-8").startswith("<svg")
    cells = json.loads(said("--joint", "age", "--joint", "seen", "--json").out)["probabilities"]
    assert np.sum(cells) == pytest.approx(1)
    found = said("--map", "--given", "age > 60")
    assert "log-density" in found.out and "approximate (ascent" in found.err
    assert said("--task", "MAP").out.startswith("MAP\n3 ")
    lines = said("--task", "MAR", "--given", "age=30").out.splitlines()[1].split()
    assert lines[:2] == ["3", "10"] and sum(map(float, lines[2:12])) == pytest.approx(1)
    density = float(said("--task", "PR", "--given", "age=30").out.splitlines()[1])
    assert density == pytest.approx(log_partition(model, "age=30").value / np.log(10), abs=1e-4)
    out = said("--given", "age=30", "--what-if", "age=80", "--target", "income").out
    assert "income=high" in out and "age=80" in out
    report = json.loads(said("--what-if", "income=high", "--json").out)
    assert report["what_if"][0]["marginals"]["age"]["mean"] > report["marginals"]["age"]["mean"]
    out = said("--given", "age likelihood {age < 40: 3, age >= 40: 1}", "--target", "age").out
    assert "age likelihood {age < 40: 3, age >= 40: 1}" in out
    assert main(["query", path, "--map", "--method", "ilp"]) == 1
    assert "is found by method='ascent', not 'ilp'" in capsys.readouterr().err
    assert main(["query", path, "--method", "gibbs"]) == 1
    assert "method='gibbs' is for networks of states" in capsys.readouterr().err
    for question in (
        ["--target", "income"],
        ["--probability", "income=high"],
        ["--task", "PR"],
        ["--task", "MAR"],
        ["--joint", "income"],
        ["--next", "income"],
        ["--what-if", "income=high"],
    ):
        assert "approximate (numerical integration" in said("--given", "age > 30", *question).err
    report = json.loads(said("--given", "age=30", "--what-if", "age > 60", "--json").out)
    assert not report["exact"]
