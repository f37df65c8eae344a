"""Explanations of numbers, and ranges in words."""

from __future__ import annotations

import re
from itertools import permutations

import numpy as np
import pandas as pd
import pytest

import conjoin as cj
from conjoin import Domain, JointModel
from conjoin.conversion.interactions import interactions
from conjoin.data.bin_labels import statement
from conjoin.data.domain import Variable
from conjoin.errors import ConvergenceWarning, ModelError
from conjoin.estimator.explain import explain_number
from conjoin.estimator.impute import imputed_codes
from conjoin.inference.completion import Completion
from conjoin.inference.mixed import MixedAnswers
from conjoin.inference.results import Joint, Run
from conjoin.reports.heat_map import heat_map
from test_mixed import random_model, rows_of


@pytest.mark.parametrize("seed", range(3))
def test_contributions_to_a_mean_are_shapley_values(seed):
    model = random_model(seed)
    row = {"a": "u", "b": "z", "p": 3, "r": 11}
    found = explain_number(
        lambda rows: MixedAnswers(model, rows).number("q").mean(), rows_of(model, [row]), "q"
    )

    def mean(names):
        rows = rows_of(model, [{n: row[n] for n in names}])
        return float(MixedAnswers(model, rows).number("q").mean()[0])

    orders = list(permutations(row))
    for name in row:
        gains = [
            mean(order[: order.index(name) + 1]) - mean(order[: order.index(name)])
            for order in orders
        ]
        assert found.contributions[name] == pytest.approx(np.mean(gains), abs=1e-9)
    assert found.base == pytest.approx(mean([]))
    assert found.mean == pytest.approx(mean(row))
    assert found.base + sum(found.contributions.values()) == pytest.approx(found.mean)
    assert found.words["p"] == "p=3" and found.words["a"] == "a=u"


def test_means_and_dates_are_explained():
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, 400)
    seen = pd.to_datetime("2024-01-01") + pd.to_timedelta(age * 3, unit="D")
    frame = pd.DataFrame({"age": age, "old": np.where(age > 60, "yes", "no"), "seen": seen})
    model = JointModel(effort="quick").fit(frame)
    found = model.explain({"old": "yes"}, "age")
    assert found.contributions["old"] > 10
    assert found.mean == pytest.approx(model.predict({"old": "yes"}, "age")[0])
    assert repr(found).startswith("age: mean 7") and "old=yes" in repr(found)
    days = repr(model.explain({"old": "yes"}, "seen"))
    assert re.search(
        r"seen=\d{4}-\d\d-\d\d$", repr(model.explain(frame[["seen"]][:1], "old")), re.M
    )
    assert "seen: mean 2024-" in days and " days  old=yes" in days
    with pytest.raises(ModelError, match="has no states"):
        model.explain({"old": "yes"}, "age", state=3)


def test_ranges_in_words():
    day = Variable("day", ["2024-01-01 to 2024-01-31", "2024-02-01 to 2024-02-28"], [0, 31, 59])
    assert [statement(day, k) for k in (0, 1)] == ["day below 2024-02-01", "day 2024-02-01 or more"]
    price = Variable("price", ["-1 to 0.5", "0.5 to 1.2", "1.2 to 7"], [-1, 0.5, 1.2, 7])
    words = [statement(price, k) for k in range(3)]
    assert words == ["price below 0.5", "price 0.5 to 1.2", "price 1.2 or more"]
    fixed = Variable("x", ["below 3", "3 or more"], [0, 3, 9])
    assert [statement(fixed, k) for k in (0, 1)] == ["x below 3", "x 3 or more"]
    assert statement(Variable("grade", [1, 2]), 0) == "grade=1"
    table = Joint(Domain([price]), np.array([0.5, 0.3, 0.2]), Run("exact", exact=True))
    assert repr(table).splitlines()[0] == "0.5  price below 0.5"
    both = Joint(Domain([price, fixed]), np.full((3, 2), 1 / 6), Run("exact", exact=True))
    assert "price below 0.5, x 3 or more: 0.1667" in heat_map(both)


def test_models_of_bins_speak_of_ranges():
    rng = np.random.default_rng(1)
    age = rng.integers(18, 90, 600)
    rich = np.where(rng.random(600) < 1 / (1 + np.exp((50 - age) / 4)), "yes", "no")
    frame = pd.DataFrame({"age": age, "rich": rich})
    binned = JointModel(discretize={"age": [30, 53]}).fit(frame)
    text = str(interactions(binned))
    assert "age 53 or more and rich=" in text or "age below 30 and rich=" in text
    assert "age 53 or more" in repr(binned.explain({"age": 70}, "rich"))
    network = binned.network_
    words = "\n".join(network.form.features.describe(network.domain))
    assert "age=" not in words and "age " in words
    mixed = JointModel(effort="quick").fit(frame)
    assert "age" in str(interactions(mixed))
    assert cj.marginals(binned, "age > 53").run.note


def test_pairs_of_numbers_need_bins():
    rng = np.random.default_rng(2)
    age = rng.integers(18, 90, 200)
    frame = pd.DataFrame({"age": age, "old": np.where(age > 60, "yes", "no")})
    for pairs in ({"forbidden": [("age", "old")]}, {"required": [("age", "old")]}):
        with pytest.raises(ModelError, match="'age' are numbers, .* discretize='quantile:5'"):
            JointModel(**pairs).fit(frame)
        JointModel(**pairs).fit(frame[["old"]].assign(age=np.where(age > 40, "a", "b")))
    model = JointModel(forbidden=[("age", "old")], discretize="quantile:5").fit(frame)
    p = model.predict_proba(pd.DataFrame({"age": [20, 80]}), "old")
    assert p[0] == pytest.approx(p[1])


def test_sampled_completions_say_so(monkeypatch):
    domain = Domain({"a": [0, 1], "b": [0, 1]})
    table = cj.Table(domain, np.array([[0, -1], [1, 1]]))
    network = cj.MarkovNetwork(domain, cj.Features.from_terms(domain, [(1.0, {"a": 0, "b": 1})]))
    own = Completion.modes
    sampled = np.array([False, True])
    monkeypatch.setattr(Completion, "modes", lambda self: (own(self)[0], sampled))
    with pytest.warns(ConvergenceWarning, match="1 of 2 rows"):
        codes = imputed_codes(network, table)
    assert codes.tolist() == [[0, 1], [1, 1]]
