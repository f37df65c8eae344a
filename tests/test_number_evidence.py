"""Evidence on numbers and dates: texts, mappings, mistakes, and what fitted models make of it."""

from __future__ import annotations

import datetime
import itertools
import json
import warnings

import numpy as np
import pandas as pd
import pytest

import conjoin as cj
from conjoin import Domain, JointModel, Likelihood, Marginal, Not, OneOf, Range, Variable
from conjoin.cli.main import main
from conjoin.data import NumberScale, NumberStates
from conjoin.errors import DataError, DataWarning, ModelError
from conjoin.inference import conditions_text, evidence_of
from random_joints import random_joint, random_rows


def column(name):
    """A column of whole numbers from 0 to 20."""
    x = np.arange(21.0)
    return Variable.of_numbers(NumberStates.learn(NumberScale.of(name, x), np.tile(x, 9)))


DOMAIN = Domain([Variable("a", ["u", "v"]), column("p"), column("q"), column("r")])


def test_soft_evidence_on_ranges_as_text():
    domain = DOMAIN
    text = "p likelihood {p < 4: 0.5, 4 <= p < 9: 2, >= 9: 1}, q marginal {<= 10: 0.25, > 10: 0.75}"
    read = evidence_of(domain, text).given
    middle = Range(at_least=4, below=9)
    assert read["p"] == Likelihood({Range(below=4): 0.5, middle: 2, Range(at_least=9): 1})
    assert read["q"] == Marginal({Range(at_most=10): 0.25, Range(above=10): 0.75})
    again = evidence_of(domain, conditions_text(read)).given
    assert again == read


def test_mistakes_in_mappings():
    domain = DOMAIN
    for value in ((20, 30), range(20, 30), "> 40"):
        with pytest.raises(DataError, match=r"give Range\(.*'20 <= p < 30'"):
            evidence_of(domain, {"p": value})
    with pytest.raises(DataError, match="Likelihood.* or Marginal"):
        evidence_of(domain, {"a": {"u": 0.9, "v": 0.1}})
    days = np.arange(19723.0, 19754.0)
    scale = NumberScale.of("day", ["2024-01-01", "2024-02-01"])
    dated = Domain([Variable.of_numbers(NumberStates.learn(scale, days))])
    with pytest.raises(DataError, match="2020 is not a date"):
        evidence_of(dated, {"day": 2020})
    read = evidence_of(dated, "day > 2024-01-15").given
    assert read["day"] == Range(above=datetime.date(2024, 1, 15))


def test_texts_and_mappings_are_the_same():
    domain = DOMAIN
    text = "p=3, q > 4, r in {1, 2}, a != u, 2 <= r < 9"
    read = evidence_of(domain, text).given
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
    assert found.run.exact
    same = cj.marginals(model, {"age": Range(above=60)}, targets=["income"])
    assert same["income"] == pytest.approx(found["income"]) and list(same) == ["income"]
    p = cj.probability(model, "age > 60 and income=high", '"city, state" in {A, B}')
    true = ((frame["age"] > 60) & (frame["income"] == "high")).mean()
    assert float(p) == pytest.approx(true, abs=0.06)
    assert float(cj.probability(model, "age < 10, age > 20")) == 0
    drawn = model.sample(200, "age <= 30, income != low", random_state=0)
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
    assert 'given age > 60, "city, state"=A (exact)' in capsys.readouterr().out
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


ABSURD = (-1e9, -60.0, -12.0, 32.0, 80.0, 1e9)


@pytest.mark.parametrize("seed", range(12))
def test_means_are_within_the_quantiles_whatever_the_evidence(seed):
    """Also where the evidence puts almost no probability on the interval, or the range, asked about."""
    rng = np.random.default_rng(seed)
    joint, _ = random_joint(rng)
    domain = joint.domain.observed
    row = random_rows(rng, domain, 1)
    for name in domain.numeric:
        given = {
            v.name: v.states[code] for v, code in zip(domain, row.codes[0], strict=True)
            if v.numbers is None
        }  # fmt: skip
        for absurd, (low, high) in itertools.product(
            (*ABSURD, -3, 23), ((-99, 6), (4, 9), (14, 99))
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)
                given.update(dict.fromkeys(set(domain.numeric) - {name}, absurd))
                try:
                    free = cj.marginals(joint, given, targets=[name])[name]
                    inside = Range(at_least=low, at_most=high)
                    cut = cj.marginals(joint, {**given, name: inside}, targets=[name])[name]
                except ModelError as error:  # single values only, none of them in the range
                    assert "probability 0" in str(error)
                    continue
            for number in (free, cut):
                ends = number.quantile(0.001), number.quantile(0.999)
                assert ends[0] - 0.51 <= number.mean() <= ends[1] + 0.51
            assert low - 0.51 <= cut.mean() <= high + 0.51
            assert low <= cut.quantile(0.001) <= cut.quantile(0.999) <= high


def test_absurd_numbers_do_not_make_absurd_predictions():
    """Means stay within half a score of what was recorded; intervals contain them."""
    rng = np.random.default_rng(3)
    size = rng.gamma(4, 50, 500).round()
    weight = (1500 + 8 * size + rng.normal(0, 200, 500)).round()
    miles = (60 - 0.007 * weight - 0.02 * size + rng.normal(0, 1.5, 500)).round(1)
    model = cj.JointModel(effort="quick").fit(
        pd.DataFrame({"size": size, "weight": weight, "miles": miles})
    )
    states = model.model_.domain.numbers("miles")
    low, high = states.map.to_values(np.array(states.reach))
    assert low > miles.min() - 0.3 * np.ptp(miles) and high < miles.max() + 0.3 * np.ptp(miles)
    for times in (0.2, 0.4, 3, 6, 1000, -0.2, -3, -1000):
        start = weight.max() if times > 0 else weight.min()
        row = pd.DataFrame({"size": [90.0], "weight": [start + times * np.ptp(weight)]})
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            number = model.distribution(row, "miles")
        assert len(said) == (abs(times) > 0.5)
        assert all("weight=" in str(warning.message) for warning in said)
        assert low <= number.mean() <= high
        first, last = number.interval(0.9)
        assert first < number.mean() < last and last - first < np.ptp(miles)


def test_a_number_whose_score_is_far_outside_counts_with_its_state():
    """Prices rise by factors: 0.01 is near the lowest one by itself, and far from it as a score."""
    prices = np.exp(np.random.default_rng(0).uniform(np.log(100), np.log(90_000), 3000)).round(2)
    states = NumberStates.learn(NumberScale.of("price", prices), prices)
    assert not states.scale.is_far([0.01, 99.0, 95_000.0]).any()
    known = ~np.isnan(states.scores(np.array([0.01, 99.0, 95_000.0, prices[0], 200_000.0])))
    assert known.tolist() == [False, True, True, True, False]
    assert not np.isnan(states.scores(prices)).any()
