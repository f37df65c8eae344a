"""What notebooks show of answers: HTML with the words of their text, in which labels are never markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import conjoin as cj
from conjoin.inference import joint_distribution

EVIL = "<b>yes&"


class Cells(HTMLParser):
    """The texts of cells, row by row, and the widths of bars."""

    def __init__(self):
        super().__init__()
        self.rows, self.widths, self.open, self.text = [], [], [], ""

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.rows += [[]] if tag == "tr" else []
        if tag in ("td", "th"):
            self.rows[-1].append("")
        self.widths += [
            float(x) for x in re.findall(r"width:([\d.]+)%", dict(attrs).get("style", ""))
        ]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if self.rows and {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def cells(answer):
    reader = Cells()
    reader.feed(answer._repr_html_())
    reader.close()
    assert not reader.open
    return reader


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(3)
    ill = rng.random(400) < 0.3
    frame = pd.DataFrame({
        "ill": np.where(ill, EVIL, "no"),
        "age": rng.integers(20, 60, 400) + 20 * ill,
        "city": rng.choice(["Bonn", "Ulm", "Rom"], 400, p=[0.5, 0.3, 0.2]),
    })  # fmt: skip
    return cj.JointModel(effort="quick").fit(frame), frame


def test_marginals(model):
    answer = cj.marginals(model[0], "age > 50")
    shown = cells(answer)
    p = answer["city"]
    ranked = sorted(p, key=lambda state: -p[state])
    assert [row[1] for row in shown.rows if row[1] in p] == ranked
    assert [EVIL, f"{answer['ill'][EVIL]:.4g}"] in [row[1:] for row in shown.rows]
    for state in p:
        assert round(100 * p[state]) in shown.widths
    assert "mean" in shown.text and "exact" in shown.text


def test_a_column_of_many_states_shows_the_first_eight():
    domain = cj.Domain({"x": [f"s{k}" for k in range(12)]})
    values = np.arange(12.0) / 4
    factor = cj.models.TableFactor((0,), values)
    shown = cells(cj.marginals(cj.MarkovNetwork(domain, factors=[factor])))
    assert [row[1] for row in shown.rows] == [*(f"s{k}" for k in range(11, 3, -1)), "+4 more"]
    p = np.exp(values) / np.exp(values).sum()
    assert float(shown.rows[-1][2]) == pytest.approx(p[:4].sum(), rel=1e-3)


def test_all_answers_have_a_face(model):
    fitted, frame = model
    joint = fitted.model_
    given = "age > 50"
    questions = cj.next_questions(fitted, "ill", given)
    answers = {
        "question": (questions, questions[0].name),
        "what if": (cj.what_if(fitted, {"ill": EVIL}, {"ill": "no"}), "as it is"),
        "surprises": (cj.surprises(fitted, frame), "expected instead"),
        "row": (cj.most_probable(fitted, given), "Most probable"),
        "joint": (joint_distribution(joint, ["ill", "city"]), "Bonn"),
        "cells": (joint_distribution(joint, ["ill", "city", "age"]), "city=Bonn"),
        "links": (cj.joint.interactions(joint), "odds"),
        "explanation": (fitted.explain(frame.head(1), target="ill"), "before the row is known"),
    }
    for name, (answer, words) in answers.items():
        shown = cells(answer)
        assert words in shown.text, name
        assert EVIL in shown.text or name not in ("question", "joint", "explanation"), name
        listed = [cell for row in shown.rows for cell in row if re.fullmatch(r"0\.\d{3,}", cell)]
        assert all(number in repr(answer) for number in listed), name
    first = cj.surprises(fitted, frame)[0]
    assert cells(cj.surprises(fitted, frame)).rows[1][0] == str(first.row)
    p = joint_distribution(joint, ["ill", "city"])
    assert max(cells(p).widths) == 100
