"""Explanations of numbers, and ranges in words."""

from __future__ import annotations

import datetime
import re
from itertools import permutations

import numpy as np
import pandas as pd
import pytest

import conjoin as cj
from conjoin import Domain, JointModel, Variable
from conjoin.data import NumberScale, NumberStates, statement
from conjoin.errors import ConvergenceWarning, ModelError
from conjoin.estimator import imputed_codes
from conjoin.estimator.explain import explain_number
from conjoin.inference import Completion, JointProbabilities, JointRows, Run
from conjoin.joint import interactions
from conjoin.views.reports.svg import heat_map
from random_joints import random_joint, random_rows


@pytest.mark.parametrize("seed", range(3))
def test_contributions_to_a_mean_are_shapley_values(seed):
    rng = np.random.default_rng(seed)
    joint, _ = random_joint(rng)
    domain = joint.domain.observed
    row, target = random_rows(rng, domain, 1), domain.numeric[0]
    found = explain_number(lambda rows: JointRows(joint, rows).number(target).mean(), row, target)

    def mean(names):
        codes, numbers = np.full((1, len(domain)), -1), np.full((1, len(domain.numeric)), np.nan)
        for name in names:
            codes[0, domain.index(name)] = row.codes[0, domain.index(name)]
            if name in domain.numeric:
                numbers[0, domain.numeric.index(name)] = row.column(name)[0]
        known = cj.Table.of_values(
            domain, codes, numbers
        )  # the others are not known, rather than lost
        known = cj.Table.adopt(domain, known.codes, None, numbers, domain.names)
        return float(JointRows(joint, known).number(target).mean()[0])

    others = [name for name in domain.names if name != target]
    orders = list(permutations(others))
    for name in others:
        gains = [
            mean(order[: order.index(name) + 1]) - mean(order[: order.index(name)])
            for order in orders
        ]
        assert found.contributions.get(name, 0.0) == pytest.approx(np.mean(gains), abs=1e-9)
    assert found.base == pytest.approx(mean([]))
    assert found.mean == pytest.approx(mean(others))
    assert found.base + sum(found.contributions.values()) == pytest.approx(found.mean)


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


def intervals(name, values, edges):
    scale = NumberScale.of(name, values)
    return Variable.of_numbers(NumberStates.learn(scale, scale.numbers(values), edges=edges))


def test_ranges_in_words():
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(k) for k in range(59)]
    day = intervals("day", days, [(days[30] - datetime.date(1970, 1, 1)).days + 0.5])
    assert day.states == ("2024-01-01 to 2024-01-31", "2024-02-01 to 2024-02-28")
    assert [statement(day, k) for k in (0, 1)] == ["day below 2024-02-01", "day 2024-02-01 or more"]
    prices = [-1.0, 7.0, *np.random.default_rng(0).uniform(-1, 7, 50)]
    price = intervals("price", prices, [0.5, 1.2])
    assert price.states == ("-1 to 0.5", "0.5 to 1.2", "1.2 to 7")
    words = [statement(price, k) for k in range(3)]
    assert words == ["price below 0.5", "price 0.5 to 1.2", "price 1.2 or more"]
    grade = Variable("grade", [1, 2])
    assert statement(grade, 0) == "grade=1"
    table = JointProbabilities(Domain([price]), np.array([0.5, 0.3, 0.2]), Run("exact", exact=True))
    assert repr(table).splitlines()[0] == "0.5  price below 0.5"
    both = JointProbabilities(
        Domain([price, grade]), np.full((3, 2), 1 / 6), Run("exact", exact=True)
    )
    assert "price below 0.5, grade=1: 0.1667" in heat_map(both)


def test_models_of_numbers_speak_of_ranges():
    rng = np.random.default_rng(1)
    age = rng.integers(18, 90, 600)
    rich = np.where(rng.random(600) < 1 / (1 + np.exp((50 - age) / 4)), "yes", "no")
    model = JointModel("tree", effort="quick").fit(pd.DataFrame({"age": age, "rich": rich}))
    text = str(interactions(model))
    assert re.search(r"age (below \d+|\d+ or more|\d+ to \d+) and rich=", text)
    network = model.network_
    words = "\n".join(network.form.features.describe(network.domain))
    assert "age=" not in words and re.search(r"age (below \d+|\d+ or more)", words)


def test_forbidden_pairs_of_numbers():
    rng = np.random.default_rng(2)
    age = rng.integers(18, 90, 200)
    frame = pd.DataFrame({"age": age, "old": np.where(age > 60, "yes", "no")})
    model = JointModel(forbidden=[("age", "old")]).fit(frame)
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
