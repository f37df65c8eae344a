"""The explorer's page, in a real browser: its answers are Python's, and clicks do what they say."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from urllib.parse import quote
from zlib import decompress

import numpy as np
import pytest

import conjoin as cj
from conjoin import MarkovNetwork
from conjoin.cli.main import main
from conjoin.data import as_table
from conjoin.inference import NumberDistributions, as_markov_network, evidence_of
from conjoin.models import TableFactor
from conjoin.views.explorer import explore
from conjoin.views.explorer import explorer_page as page_module
from conjoin.views.explorer.browser_tables import LaneTable, browser_tree, compact
from conjoin.views.reports import counted_joints
from conjoin.views.reports.associations import joints_of
from headless import resize, show, wait
from strategies import random_bayesian_network, random_features, random_markov_network

# --- models of different kinds -----------------------------------------------------------------------


def domain_of(cards, prefix="x"):
    return cj.Domain({f"{prefix}{i}": [f"s{k}" for k in range(c)] for i, c in enumerate(cards)})


def tables():
    rng = np.random.default_rng(1)
    domain = domain_of([2, 3, 2, 4, 2, 3])
    scopes = [(0, 1), (1, 2, 3), (3, 4), (4, 5), (0, 5)]
    return MarkovNetwork(
        domain,
        factors=[TableFactor(s, rng.normal(size=domain.cards[list(s)], scale=1.5)) for s in scopes],
    )


def features_and_trees():
    """Conjunctions of several tests, a tree and a table, and a column with a single state."""
    rng = np.random.default_rng(3)
    return random_markov_network(rng, domain_of([3, 2, 1, 4, 2, 3]))


def zeros():
    """A Bayesian network whose tables have zeros and ones."""
    rng = np.random.default_rng(5)
    bn = random_bayesian_network(rng, domain_of([2, 3, 2, 3, 2, 2, 3]))
    cpds = []
    for cpd in bn.cpds:
        p = np.exp(cpd.table)
        p[rng.random(p.shape) < 0.3] = 0.0
        p[p.sum(axis=-1) == 0] = 1.0
        with np.errstate(divide="ignore"):
            log_p = np.log(p / p.sum(axis=-1, keepdims=True))
        cpds.append(cj.TableCPD(bn.domain.cards, cpd.target, cpd.parents, log_p))
    return cj.BayesianNetwork(bn.domain, cpds)


def many_states():
    rng = np.random.default_rng(7)
    domain = domain_of([7, 15, 2, 9, 20])
    terms = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 2)]
    return MarkovNetwork(
        domain, factors=[TableFactor(s, rng.normal(size=domain.cards[list(s)])) for s in terms]
    )


def hidden():
    """A hidden column of 24 states that all columns depend on, with shifts of low rank."""
    rng = np.random.default_rng(9)
    cards = [2, 3, 2, 2, 3, 2, 2, 2]
    variables = [*domain_of(cards), cj.Variable("z", range(24), hidden=True)]
    domain = cj.Domain(variables)
    factors = [TableFactor((8,), rng.normal(size=24))]
    basis = rng.normal(size=(2, 24))
    for scope in [(0, 1, 2), (2, 3, 4), (4, 5), (5, 6, 7)]:
        shape = domain.cards[list(scope)].tolist()
        value = rng.normal(size=[*shape, 1]) + 0.5 * rng.normal(size=[*shape, 2]) @ basis
        for axis, card in enumerate(shape):  # each state of each column has shifts of its own
            lines = [card if a == axis else 1 for a in range(len(shape))]
            value = value + rng.normal(size=(card, 24)).reshape(*lines, 24)
        factors.append(TableFactor((*scope, 8), value))
    return MarkovNetwork(domain, factors=factors)


def two_hidden():
    """Two hidden columns that touch different columns, and zeros."""
    rng = np.random.default_rng(11)
    visible = [*domain_of([2, 3, 2, 2])]
    domain = cj.Domain([*visible, *(cj.Variable(f"z{k}", range(3), hidden=True) for k in range(2))])
    factors = [
        TableFactor(s, rng.normal(size=domain.cards[list(s)]))
        for s in [(0, 1, 4), (2, 5), (4, 5), (1, 2), (3,)]
    ]
    factors.append(TableFactor((0, 2), np.array([[0.0, -np.inf], [0.3, 0.1]])))
    return MarkovNetwork(domain, factors=factors)


def refined():
    """What `JointModel` learns: intervals of numbers, a thin network with refined weights."""
    return refined_model().model_


_fitted = {}


def refined_model():
    if not _fitted:
        import pandas as pd

        rng = np.random.default_rng(13)
        age = rng.integers(18, 90, 600)
        ill = rng.random(600) < 0.1 + 0.006 * (age - 18)
        tired = np.where(rng.random(600) < 0.8, ill, rng.random(600) < 0.3)
        frame = pd.DataFrame({
            "age": age,
            "ill": np.where(ill, "yes", "no"),
            "tired": np.where(tired, "yes", "no"),
            "visits": rng.poisson(1 + 2 * ill),
            "city": rng.choice(["Bonn", "Köln", "Ulm"], 600),
        })  # fmt: skip
        _fitted["model"] = cj.JointModel(effort="quick").fit(frame)
        _fitted["frame"] = frame
    return _fitted["model"]


def chain():
    """A long chain with conjunctions of many tests, which exact inference decomposes."""
    rng = np.random.default_rng(15)
    domain = domain_of([2] * 30)
    factors = [TableFactor((i, i + 1), rng.normal(size=(2, 2))) for i in range(29)]
    terms = [(2.0, {f"x{i}": "s1" for i in range(k, 30, 3)}) for k in range(3)]
    return MarkovNetwork(domain, cj.Features.from_terms(domain, terms), factors)


def strong():
    """Weights that are too large to be exponentiated."""
    rng = np.random.default_rng(17)
    domain = domain_of([2, 3, 2, 2, 2])
    features = random_features(rng, domain, count=12)
    return MarkovNetwork(domain, replace(features, weights=400 * features.weights))


KINDS = {
    f.__name__: f
    for f in (
        tables, features_and_trees, zeros, many_states, hidden, two_hidden, refined, chain, strong,
    )
}  # fmt: skip


# --- evidence, and what Python says about it ---------------------------------------------------------


def random_evidence(rng, domain):
    """{column: (kind, likelihood vector, text in the address)} of some columns."""
    found = {}
    for v in rng.permutation(len(domain))[: int(rng.integers(0, min(len(domain), 6) + 1))].tolist():
        variable = domain.variables[v]
        card = len(variable)
        if card == 1:
            continue
        kind = str(rng.choice(["is", "in", "not", "soft"], p=[0.5, 0.2, 0.15, 0.15]))
        labels = [quote(str(s), safe="!'()*~") for s in variable.states]
        weights = np.zeros(card)
        if kind == "soft":
            weights = rng.choice(100, card, replace=False) / 100
            text = "soft:" + ",".join(f"{w:g}" for w in weights)
        else:
            size = int(rng.integers(2, card)) if kind == "in" and card > 2 else 1
            chosen = sorted(rng.choice(card, size, replace=False).tolist())
            weights[chosen] = 1.0
            text = ",".join(labels[s] for s in chosen)
            text = {"is": text, "in": f"in:{text}", "not": f"not:{text}"}[kind]
            if kind == "not":
                weights = 1 - weights
        found[v] = weights, f"{quote(variable.name, safe='')}={text}"
    return found


def tilted(model, evidence):
    """The network with the evidence as factors."""
    mn = as_markov_network(model)
    with np.errstate(divide="ignore"):
        factors = [TableFactor((v,), np.log(weights)) for v, (weights, _) in evidence.items()]
    return MarkovNetwork(mn.domain, mn.features, [*mn.factors, *factors])


def truth(model, evidence):
    """Python's marginals and the log-probability of the evidence; None if it is impossible."""
    network = tilted(model, evidence)
    log = cj.log_partition(network).value - cj.log_partition(as_markov_network(model)).value
    if log == -np.inf:
        return None, log
    return cj.marginals(network), log


# --- pages -------------------------------------------------------------------------------------------


def content_of(html):
    """What the page says of the model, apart from its numbers."""
    return json.loads(decompress(b64decode(re.search(r'id="model">(.*?)</script>', html)[1])))


def open_menu(driver, column, state):
    """Right-click on a state."""
    from selenium.webdriver import ActionChains

    ActionChains(driver).context_click(option(driver, column, state)).perform()
    wait(driver, "!document.getElementById('menu').hidden")


def option(driver, column, state):
    from selenium.webdriver.common.by import By

    selector = f'.card[data-column="{column}"] [data-state="{state}"]'
    return driver.find_element(By.CSS_SELECTOR, selector)


def button(driver, text):
    from selenium.webdriver.common.by import By

    found = driver.find_elements(By.XPATH, f"//button[normalize-space()={text!r}]")
    return next(b for b in found if b.is_displayed())


def menu_item(driver, text):
    from selenium.webdriver.common.by import By

    items = driver.find_elements(By.CSS_SELECTOR, "#menu [role=menuitem]")
    next(item for item in items if item.text.startswith(text)).click()


def evidence(driver):
    return driver.execute_script("return [...explorer.store.evidence].map(([i, p]) => [i, p])")


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_gives_pythons_answers(kind, browser, tmp_path):
    model = KINDS[kind]()
    domain = as_markov_network(model).domain.observed
    rng = np.random.default_rng(len(kind))
    asked = [random_evidence(rng, domain) for _ in range(50)]
    show(browser, explore(model), tmp_path)
    found = browser.execute_script(
        "return arguments[0].map((text) => { explorer.store.address = text; return {"
        "ignored: explorer.store.ignored, address: explorer.store.address, log: explorer.log,"
        "after: explorer.after && explorer.after.map((p) => [...p])}; })",
        ["&".join(text for _, text in given.values()) for given in asked],
    )
    possible = 0
    for given, answer in zip(asked, found, strict=True):
        assert answer["ignored"] == 0
        expected, log = truth(model, given)
        if expected is None:
            assert answer["after"] is None
            continue
        possible += 1
        assert answer["log"] == pytest.approx(log, abs=1e-9)
        for name, p in zip(domain.names, answer["after"], strict=True):
            np.testing.assert_allclose(p, expected.array(name), rtol=0, atol=1e-9)
    assert possible >= 15


@pytest.mark.parametrize("kind", ["tables", "zeros", "many_states", "hidden", "refined"])
def test_python_reads_the_conditions_that_the_page_writes(kind, browser, tmp_path):
    model = KINDS[kind]()
    domain = as_markov_network(model).domain.observed
    rng = np.random.default_rng(23)
    asked = [random_evidence(rng, domain) for _ in range(12)]
    show(browser, explore(model), tmp_path)
    found = browser.execute_script(
        "return arguments[0].map((text) => { explorer.store.address = text; return "
        "[conditions(explorer.store), explorer.after && explorer.after.map((p) => [...p])]; })",
        ["&".join(text for _, text in given.values()) for given in asked],
    )
    again = browser.execute_script(
        "return arguments[0].map((text) => { explorer.store.clear(); explorer.setConditions(text);"
        "return [conditions(explorer.store), explorer.after && explorer.after.map((p) => [...p])]; })",
        [text for text, _ in found],
    )
    assert [p for _, p in again] == [p for _, p in found]  # and so does the page
    for text, answer in found:
        if answer is None:
            with pytest.raises(cj.ConjoinError, match="impossible|probability 0"):
                cj.marginals(model, text)
            continue
        expected = cj.marginals(model, text)
        for name, p in zip(domain.names, answer, strict=True):
            np.testing.assert_allclose(p, expected.array(name), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_finds_pythons_most_probable_row(kind, browser, tmp_path):
    model = KINDS[kind]()
    domain = as_markov_network(model).domain.observed
    rng = np.random.default_rng(21)
    show(browser, explore(model), tmp_path)
    log_z = cj.log_partition(as_markov_network(model)).value
    for _ in range(10):
        row = cj.sample(model, 1, random_state=rng).codes[0]
        chosen = rng.permutation(len(domain))[: int(rng.integers(0, 3))].tolist()
        given = {domain.names[v]: domain.variables[v].states[row[v]] for v in chosen}
        text = "&".join(f"{quote(n, safe='')}={quote(str(s), safe='')}" for n, s in given.items())
        found = browser.execute_script(
            "explorer.store.address = arguments[0];"
            "return explorer.tree.mostProbable(explorer.lists.lists[0])",
            text,
        )
        best = cj.most_probable(model, given)
        instance = domain.decode(found["row"])
        assert all(instance[n] == s for n, s in given.items())
        own = as_markov_network(model).log_potential([instance])[0]
        assert found["log"] == pytest.approx(own - log_z, abs=1e-9)
        assert own >= best.score - 1e-9
        assert found["exact"] == (abs(own - best.bound) <= 2e-9)


@pytest.mark.parametrize("kind", ["zeros", "hidden", "two_hidden", "chain"])
def test_random_rows_fit_the_evidence(kind, browser, tmp_path):
    model = KINDS[kind]()
    domain = as_markov_network(model).domain.observed
    first = cj.most_probable(model)
    name = domain.names[1]
    given = {name: first[name]}
    show(browser, explore(model), tmp_path)
    drawn = browser.execute_script(
        "explorer.store.address = arguments[0];"
        "let seed = 1; const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;"
        "return explorer.tree.sample(explorer.lists.lists[0], 4000, random)",
        f"{name}={given[name]}",
    )
    codes = np.array(drawn)
    assert (codes[:, 1] == domain.variables[1].index(given[name])).all()
    assert np.isfinite(cj.scoring.log_likelihood(model, cj.Table(domain, codes)).by_row).all()
    expected = cj.marginals(model, given)
    for v, own in enumerate(domain.names):
        p = expected.array(own)
        seen = np.bincount(codes[:, v], minlength=len(p)) / len(codes)
        assert (np.abs(seen - p) <= 5 * np.sqrt(p * (1 - p) / 4000) + 1e-9).all()


@pytest.mark.parametrize("kind", ["tables", "zeros", "hidden"])
def test_contributions_and_questions(kind, browser, tmp_path):
    """The explanation of a target and the information of each question are those of the definitions."""
    model = KINDS[kind]()
    domain = as_markov_network(model).domain.observed
    target, known = 0, [1, 3]
    best = cj.most_probable(model)
    given = {domain.names[v]: best[domain.names[v]] for v in known}
    address = "&".join(f"{n}={s}" for n, s in given.items())
    show(browser, explore(model), tmp_path, f"#{address}&/target={domain.names[target]}:s0")
    wait(browser, "explorer.explained")
    found = browser.execute_script(
        "return {target: explorer.explained.target, focus: explorer.explained.focus, "
        "contributions: explorer.explained.contributions, bits: explorer.questions.bits}"
    )
    assert (found["target"], found["focus"]) == (target, 0)

    def probability(without=None):
        left = {n: s for n, s in given.items() if n != without}
        return cj.marginals(model, left).array(domain.names[target])[0]

    def log_odds(p):
        return np.log(p) - np.log1p(-p)

    assert {c["i"] for c in found["contributions"]} == set(known)
    for c in found["contributions"]:
        p = probability(without=domain.names[c["i"]])
        assert c["without"] == pytest.approx(p, abs=1e-9)
        if 0 < p < 1 and 0 < probability() < 1:
            assert c["change"] == pytest.approx(log_odds(probability()) - log_odds(p), abs=1e-7)
    for v, bits in enumerate(found["bits"]):
        if v == target or v in known:
            assert bits == pytest.approx(0, abs=1e-9)
            continue
        pair = cj.inference.joint_distribution(
            model, [domain.names[target], domain.names[v]], given
        ).table
        outer = np.outer(pair.sum(axis=1), pair.sum(axis=0))
        inside = pair > 0
        mutual = (pair[inside] * np.log2(pair[inside] / outer[inside])).sum()
        assert bits == pytest.approx(mutual, abs=1e-9)


def test_clicks(browser, tmp_path):
    from selenium.webdriver import ActionChains, Keys
    from selenium.webdriver.common.by import By

    show(browser, explore(tables()), tmp_path)
    option(browser, 1, 2).click()
    assert evidence(browser) == [[1, {"kind": "in", "states": [2]}]]
    chips = browser.find_element(By.ID, "chips").get_attribute("textContent")
    assert chips == "x1 = s2×"
    expected = cj.marginals(tables())["x1"]["s2"]
    shown = browser.find_element(By.ID, "probability").text
    assert shown == f"Probability of all this: {100 * expected:.0f}%"
    wait(browser, "location.hash === '#x1=s2'")
    shift = ActionChains(browser).key_down(Keys.SHIFT)
    shift.click(option(browser, 1, 0)).key_up(Keys.SHIFT).perform()
    assert evidence(browser) == [[1, {"kind": "in", "states": [0, 2]}]]
    option(browser, 1, 0).click()
    option(browser, 1, 0).click()  # again: take it back
    assert evidence(browser) == []
    open_menu(browser, 3, 1)
    menu_item(browser, "Not s1")
    assert evidence(browser) == [[3, {"kind": "not", "states": [1]}]]
    assert option(browser, 3, 1).get_attribute("aria-selected") == "false"
    assert "before" in option(browser, 3, 1).get_attribute("aria-label")
    browser.find_element(By.CSS_SELECTOR, "#chips .remove").click()
    assert evidence(browser) == []
    button(browser, "↶").click()
    assert evidence(browser) == [[3, {"kind": "not", "states": [1]}]]
    button(browser, "↷").click()
    assert evidence(browser) == []


def test_soft_evidence(browser, tmp_path):
    from selenium.webdriver.common.by import By

    model = tables()
    show(browser, explore(model), tmp_path)
    open_menu(browser, 0, 0)
    menu_item(browser, "Soft evidence")
    sliders = browser.find_elements(By.CSS_SELECTOR, "#dialog input")
    script = "arguments[0].value = 25; arguments[0].dispatchEvent(new Event('input'))"
    browser.execute_script(script, sliders[0])
    button(browser, "Set").click()
    assert evidence(browser) == [[0, {"kind": "soft", "weights": [0.25, 1]}]]
    expected, _ = truth(model, {0: (np.array([0.25, 1.0]), "")})
    found = browser.execute_script("return explorer.after.map((p) => [...p])")
    np.testing.assert_allclose(found[4], expected.array("x4"), atol=1e-9)


def test_a_range_of_a_number_is_dragged(browser, tmp_path):
    from selenium.webdriver import ActionChains

    model = refined()
    show(browser, explore(model, file="people.conjoin"), tmp_path)
    drag = ActionChains(browser).move_to_element(option(browser, 0, 1)).click_and_hold()
    drag.move_to_element(option(browser, 0, 2)).move_to_element(option(browser, 0, 3))
    drag.release().perform()
    assert evidence(browser) == [[0, {"kind": "in", "states": [1, 2, 3]}]]
    low, high = (int(np.ceil(model.domain.numbers("age").edges[k])) for k in (0, 3))
    command = browser.execute_script("return asCommand(explorer.store, 'people.conjoin')")
    assert command == f"conjoin query people.conjoin --given '{low} <= age < {high}'"
    weights = np.zeros(len(model.domain["age"]))
    weights[1:4] = 1
    expected, _ = truth(model, {0: (weights, "")})
    found = browser.execute_script("return explorer.after.map((p) => [...p])")
    np.testing.assert_allclose(found[1], expected.array("ill"), atol=1e-9)


def test_keyboard(browser, tmp_path):
    from selenium.webdriver import ActionChains, Keys
    from selenium.webdriver.common.by import By

    show(browser, explore(many_states()), tmp_path)
    option(browser, 0, 0).click()
    keys = ActionChains(browser)
    keys.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER).perform()
    assert evidence(browser) == [[0, {"kind": "in", "states": [2]}]]
    ActionChains(browser).send_keys(Keys.ARROW_DOWN).perform()
    ActionChains(browser).key_down(Keys.SHIFT).send_keys(Keys.ENTER).key_up(Keys.SHIFT).perform()
    assert evidence(browser) == [[0, {"kind": "in", "states": [2, 3]}]]
    ActionChains(browser).send_keys("t").perform()
    assert browser.execute_script("return explorer.store.target") == 0
    undo = ActionChains(browser).key_down(Keys.CONTROL)
    undo.send_keys("z").send_keys("z").key_up(Keys.CONTROL).perform()
    assert evidence(browser) == [[0, {"kind": "in", "states": [2]}]]
    ActionChains(browser).send_keys("m").send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN).perform()
    ActionChains(browser).send_keys(Keys.ENTER).perform()
    assert evidence(browser)[0][1]["kind"] == "not"
    ActionChains(browser).send_keys("/").send_keys("x3").perform()
    assert browser.execute_script("return explorer.cards.order") == [3]
    ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    assert len(browser.execute_script("return explorer.cards.order")) == 5
    browser.execute_script("document.activeElement.blur()")
    ActionChains(browser).send_keys("?").perform()
    assert browser.find_element(By.ID, "dialog").is_displayed()
    button(browser, "Close").click()


def test_sorted_by_movement_and_filtered(browser, tmp_path):
    from selenium.webdriver.common.by import By

    model = chain()
    show(browser, explore(model), tmp_path)
    option(browser, 2, 1).click()
    before, after = cj.marginals(model), cj.marginals(model, {"x2": "s1"})
    names = [n for n in model.domain.names if n != "x2"]
    moved = {n: np.abs(before.array(n) - after.array(n)).sum() / 2 for n in names}
    order = browser.execute_script("return explorer.cards.order")
    assert order[0] == 2
    ranked = [round(moved[f"x{v}"], 4) for v in order[1:]]
    assert all(a >= b - 1.01e-4 for a, b in pairwise(ranked))
    browser.find_element(By.ID, "search").send_keys("X2")
    found = browser.execute_script("return explorer.cards.order")
    assert sorted(found) == [2, *range(20, 30)]
    browser.find_element(By.ID, "tab-pairs").click()
    wait(browser, "!document.getElementById('pairs').hidden")
    first = browser.find_element(By.CSS_SELECTOR, "#pairs li:not([hidden]) button")
    first.click()
    assert len(browser.execute_script("return explorer.cards.order")) == 2


def test_only_cards_in_view_exist(browser, tmp_path):
    domain = domain_of([2] * 400)
    rng = np.random.default_rng(0)
    factors = [TableFactor((i, i + 1), rng.normal(size=(2, 2))) for i in range(399)]
    model = MarkovNetwork(domain, factors=factors)
    show(browser, explore(model), tmp_path)
    count = "return document.querySelectorAll('.card').length"
    assert 4 <= browser.execute_script(count) <= 80
    browser.execute_script("explorer.reveal(390)")
    wait(browser, "document.querySelector('.card[data-column=\"390\"]')")
    assert browser.execute_script(count) <= 80
    wait(browser, "document.activeElement.closest('.card')?.dataset.column === '390'")
    option(browser, 390, 1).click()
    found = browser.execute_script("return [...explorer.after[395]]")
    expected = cj.marginals(model, {"x390": "s1"}).array("x395")
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_an_impossible_combination_says_so(browser, tmp_path):
    from selenium.webdriver.common.by import By

    show(browser, explore(two_hidden()), tmp_path, "#x0=s0&x2=s1")
    assert "cannot happen" in browser.find_element(By.ID, "probability").text
    browser.find_element(By.ID, "tab-rows").click()
    assert "No row fits" in browser.find_element(By.ID, "rows").text
    browser.find_element(By.CSS_SELECTOR, "#chips li:last-child .remove").click()
    assert "No row fits" not in browser.find_element(By.ID, "rows").text


def test_links_survive_and_wrong_ones_are_ignored(browser, tmp_path):
    model = many_states()
    address = "#x0=in:s1,s3&x2=not:s0&x3=soft:1,1,1,1,.5,1,1,1,1&/target=x4:s2"
    show(browser, explore(model), tmp_path, address)
    assert evidence(browser) == [
        [0, {"kind": "in", "states": [1, 3]}],
        [2, {"kind": "not", "states": [0]}],
        [3, {"kind": "soft", "weights": [1, 1, 1, 1, 0.5, 1, 1, 1, 1]}],
    ]
    assert browser.execute_script("return [explorer.store.target, explorer.store.now.focus]") == [
        4,
        2,
    ]
    browser.execute_script("location.hash = 'x0=s1&x1=nonsense&nonsense=s1&x2=in:&x3=soft:1'")
    wait(browser, "explorer.store.ignored === 4")
    assert evidence(browser) == [[0, {"kind": "in", "states": [1]}]]


HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    '"><svg onload=window.hacked=1>',
    "__proto__",
    "constructor",
    "a=b&c=d#e:f,g%41",
    "${window.hacked = 1} $policy $$ \\",
    "new\nline\ttab\u2028 \u202eright to left",
    'it\'s "quoted" and, in {braces}',
    " ",
    "long " * 60,
    "名前 😀 é",
]


class FakeConjoin:
    """Remembers what it is asked."""

    def __init__(self, asked):
        self.asked = asked

    def load(self, path):
        return path

    def marginals(self, *given, targets):
        assert len(targets) == 1
        self.asked.append(given)


def test_hostile_names(browser, tmp_path):
    domain = cj.Domain({name: [f"{name}{k}" for k in range(2)] for name in HOSTILE})
    factors = [TableFactor((i, i + 1), np.array([[1.0, 0], [0, 1.0]])) for i in range(11)]
    model = MarkovNetwork(domain, factors=factors)
    made = explore(model, title=HOSTILE[0], file=HOSTILE[0])
    show(browser, made, tmp_path)
    shown = "return [...document.querySelectorAll('.card h3')].map((h) => h.textContent)"
    assert set(browser.execute_script(shown)) == set(HOSTILE)
    assert (
        browser.execute_script("return document.getElementById('title').textContent") == HOSTILE[0]
    )
    script = (
        "explorer.store.choose(arguments[0], 1); explorer.store.pin((arguments[0] + 1) % 12);"
        "explorer.view('rows'); const text = explorer.store.address; explorer.store.clear();"
        "explorer.store.address = text; return [...explorer.store.evidence.keys()]"
    )
    for column in range(len(HOSTILE)):
        assert browser.execute_script(script, column) == [column]
        wait(browser, "explorer.questions")
        python = browser.execute_script("return asPython(explorer.store, explorer.model.file)")
        code = python.replace("import conjoin as cj\n", "")
        asked = []
        exec(code, {"cj": FakeConjoin(asked), "print": str})
        assert asked == [(HOSTILE[0], {HOSTILE[column]: f"{HOSTILE[column]}1"})]
        text = browser.execute_script("return conditions(explorer.store)")
        assert evidence_of(domain, text).certain == {HOSTILE[column]: f"{HOSTILE[column]}1"}
        browser.execute_script("explorer.store.clear()")
    assert browser.execute_script("return window.hacked") is None


def test_copied_text(browser, tmp_path):
    domain = cj.Domain({"age": range(20, 27), "city, state": ["Austin, TX", "Rome", "x=1"]})
    model = MarkovNetwork(domain)
    show(browser, explore(model, file="my model.conjoin"), tmp_path)
    text = "return [asPython, asCommand].map((f) => f(explorer.store, explorer.model.file))"
    pieces = [
        (0, {"kind": "in", "states": [2, 3, 4]}, "22 <= age <= 24"),
        (0, {"kind": "in", "states": [5, 6]}, "age >= 25"),
        (0, {"kind": "in", "states": [0, 2]}, "age in {20, 22}"),
        (1, {"kind": "not", "states": [0]}, '"city, state" != "Austin, TX"'),
        (1, {"kind": "in", "states": [0, 2]}, '"city, state" in {"Austin, TX", "x=1"}'),
        (
            1,
            {"kind": "soft", "weights": [1, 0.5, 0.25]},
            '"city, state" likelihood {"Austin, TX": 1, Rome: 0.5, "x=1": 0.25}',
        ),
    ]
    for column, piece, expected in pieces:
        browser.execute_script("explorer.store.clear()")
        browser.execute_script("explorer.store.set(...arguments)", column, piece)
        python, command = browser.execute_script(text)
        assert command == f"conjoin query 'my model.conjoin' --given '{expected}'"
        assert f"cj.marginals(model, {json.dumps(expected)})" in python
    browser.execute_script(
        "explorer.store.clear(); explorer.store.choose(0, 3); explorer.store.pin(1)"
    )
    python, command = browser.execute_script(text)
    assert '{"age": 23}, targets=["city, state"]' in python
    assert command == "conjoin query 'my model.conjoin' --given age=23 --target 'city, state'"


@pytest.mark.parametrize(("width", "height"), [(1400, 900), (800, 700), (390, 800)])
def test_nothing_is_wider_than_the_window(width, height, browser, tmp_path):
    resize(browser, width, height)
    show(
        browser,
        explore(refined(), title="A long title of a page " * 5),
        tmp_path,
        "#ill=yes&/target=tired",
    )
    for view in ("columns", "target", "graph", "pairs", "rows"):
        browser.execute_script("explorer.view(arguments[0])", view)
        wide = browser.execute_script("return document.documentElement.scrollWidth")
        assert wide <= width
        box = browser.execute_script(
            "const part = {columns: 'cards', target: 'target'}[arguments[0]] ?? arguments[0];"
            "const box = document.getElementById(part).getBoundingClientRect();"
            "return [box.width, box.height]",
            view,
        )
        assert min(box) > 50


def test_everything_has_a_name(browser, tmp_path):
    """Buttons, fields and options can be told apart by a screen reader."""
    show(browser, explore(refined()), tmp_path, "#ill=yes&/target=tired")
    unnamed = browser.execute_script(
        "return [...document.querySelectorAll('button, input, select, [role=option], [role=radio], "
        "[role=button], [role=listbox]')].filter((e) => !(e.getAttribute('aria-label') || "
        "e.getAttribute('aria-labelledby') || e.textContent.trim())).map((e) => e.outerHTML)"
    )
    assert unnamed == []


def test_in_a_notebook(browser, tmp_path):
    """The page works inside an iframe without an address of its own."""
    shown = refined_model().explore()
    path = tmp_path / "notebook.html"
    path.write_text(f"<!DOCTYPE html><meta charset=utf-8><body>{shown._repr_html_()}", "utf-8")
    browser.get(path.as_uri())
    browser.switch_to.frame(0)
    wait(browser, "window.explorer && window.explorer.times")
    option(browser, 1, 1).click()
    assert evidence(browser) == [[1, {"kind": "in", "states": [1]}]]
    browser.switch_to.default_content()


def test_a_model_that_is_too_large_gets_a_clear_page(browser, tmp_path):
    from selenium.webdriver.common.by import By

    rng = np.random.default_rng(0)
    domain = domain_of([2] * 40)
    factors = [TableFactor((i, j), rng.normal(size=(2, 2))) for i in range(40) for j in range(i)]
    made = explore(MarkovNetwork(domain, factors=factors), title="Dense")
    assert "exact inference would need" in made.too_large
    show(browser, made, tmp_path)
    text = browser.find_element(By.ID, "message").text
    assert "too large" in text and "conjoin query" in text
    assert len(made.html) < 200_000


# --- columns of numbers ------------------------------------------------------------------------------


def frame_of_numbers():
    """Whole numbers, an atom, decimals, dates, numbers on no grid, and ones with gaps in their grid."""
    import pandas as pd

    rng = np.random.default_rng(2)
    n = 400
    age = rng.integers(18, 80, n)
    ill = rng.random(n) < 0.1 + 0.008 * (age - 18)
    day = rng.integers(0, 200, n) + 100 * ill
    spent = np.where(rng.random(n) < 0.5, 0, rng.gamma(2, 50 + age, n).round())
    fee = 10 * rng.integers(0, 60, n)
    fee[0] = 7
    return pd.DataFrame({
        "ill": np.where(ill, "yes", "no"),
        "age": age,
        "spent": spent,
        "dose": (0.02 * age + rng.normal(0, 0.3, n)).round(2),
        "seen": pd.to_datetime("2024-01-01") + pd.to_timedelta(day, unit="D"),
        "city": rng.choice(["Bonn", "Ulm"], n),
        "pressure": 100 + age + rng.normal(0, 10, n),
        "fee": fee,
    })  # fmt: skip


@pytest.fixture(scope="module")
def numbers():
    """A network over the states of numbers."""
    return cj.learn_joint(as_table(frame_of_numbers()), effort="quick")[1]


def typed(browser, text):
    """Type conditions; return the page's distributions."""
    found = browser.execute_script(
        "explorer.store.clear(); explorer.setConditions(arguments[0]);"
        "return explorer.after.map((p) => [...p])",
        text,
    )
    assert browser.execute_script("return explorer.store.evidence.size") > 0, text
    return found


def assert_agree(model, found, expected, tolerance):
    for name, p in zip(model.domain.observed.names, found, strict=True):
        np.testing.assert_allclose(p, expected.array(name), rtol=0, atol=tolerance, err_msg=name)


def random_pieces(rng, size):
    """States and whole intervals of a column, as the page keeps them."""
    soft = rng.integers(0, 3, size) / 2
    soft[:2] = 1, 0.5
    return [
        {"kind": "in", "states": [1]},
        {"kind": "in", "states": [0, 1]},
        {"kind": "in", "states": [1, 2, 3]},
        {"kind": "in", "states": [size - 2, size - 1]},
        {"kind": "in", "states": [0, 2, 3]},
        {"kind": "not", "states": [2]},
        {"kind": "soft", "weights": soft.tolist()},
    ]


def test_whole_intervals_are_pythons(numbers, browser, tmp_path):
    """The page shows what Python answers to the conditions that it writes, and reads them, too."""
    show(browser, explore(numbers), tmp_path)
    rng = np.random.default_rng(5)
    for name in numbers.domain.numeric:
        at, size = numbers.domain.index(name), len(numbers.domain[name])
        for piece in random_pieces(rng, size):
            text, answer = browser.execute_script(
                "explorer.store.clear(); explorer.store.set(...arguments);"
                "return [conditions(explorer.store), explorer.after.map((p) => [...p])]",
                at,
                piece,
            )
            assert_agree(numbers, answer, cj.marginals(numbers, text), 1e-9)
            again = typed(browser, text)
            np.testing.assert_allclose(np.hstack(again), np.hstack(answer), atol=1e-9)


def test_runs_of_intervals_are_ranges_where_a_number_cuts_there(numbers, browser, tmp_path):
    show(browser, explore(numbers), tmp_path)
    for name, pattern in [
        ("age", r"\d+ <= age < \d+"),
        ("dose", r"[\d.]+ <= dose < [\d.]+"),
        ("seen", r"2024-\d\d-\d\d <= seen < 2024-\d\d-\d\d"),
        ("pressure", r"[\d.]+ < pressure < [\d.]+"),
        ("fee", r"fee in \{.* to .*, .* to .*\}"),
    ]:
        text = browser.execute_script(
            "explorer.store.clear(); explorer.store.set(arguments[0], {kind: 'in', states: [1, 2]});"
            "return conditions(explorer.store)",
            numbers.domain.index(name),
        )
        assert re.fullmatch(pattern, text), text


@pytest.mark.parametrize(
    "text",
    [
        "age > 43", "age >= 43", "43 < age <= 61", "age > 40, age < 43", "spent <= 120", "spent < 0.5",
        "dose >= 0.77 and dose < 1.2", "seen <= 2024-04-17", "pressure > 141.25", "fee >= 155",
        "age != 40", "age in {40, 41, 42}", "age not in {40, 41}", "spent in {0, 100}",
        "spent=0", "age > 30, city=Ulm, dose < 1.5",
        "age likelihood {< 33: 1, >= 33: 0.25}",
    ],
)  # fmt: skip
def test_parts_of_intervals_count_as_in_python(text, numbers, browser, tmp_path):
    show(browser, explore(numbers), tmp_path)
    assert_agree(numbers, typed(browser, text), cj.marginals(numbers, text), 1e-9)
    log = browser.execute_script("return explorer.log")
    if "likelihood" not in text:
        assert np.exp(log) == pytest.approx(float(cj.probability(numbers, text)), abs=1e-9)
    words = browser.execute_script("return conditions(explorer.store)")
    assert words == text.replace(" and dose", ", dose")


def test_a_value_stands_for_its_interval(numbers, browser, tmp_path):
    show(browser, explore(numbers, file="m.conjoin"), tmp_path)
    states = numbers.domain["age"]
    code = states.index(40)
    expected = cj.marginals(numbers, {"age": states.states[code]})
    assert_agree(numbers, typed(browser, "age = 40"), expected, 1e-9)
    ((_, piece),) = evidence(browser)
    assert piece["states"] == [code] and piece["kind"] == "in"
    chip = "return document.getElementById('chips').textContent"
    assert browser.execute_script(chip) == f"age = 40 ({states.states[code]})×"
    python, command = browser.execute_script(
        "return [asPython, asCommand].map((f) => f(explorer.store, explorer.model.file))"
    )
    assert command == "conjoin query m.conjoin --given 'age = 40'"
    assert 'cj.marginals(model, "age = 40")' in python
    address = browser.execute_script("return explorer.store.address")
    browser.execute_script("explorer.store.clear()")
    assert evidence(browser) == []
    browser.execute_script("explorer.store.address = arguments[0]", address)
    assert evidence(browser) == [[numbers.domain.index("age"), piece]]
    browser.execute_script("explorer.store.toggle(arguments[0], 0)", numbers.domain.index("age"))
    assert "words" not in evidence(browser)[0][1]
    typed(browser, "spent = 0")
    assert browser.execute_script(chip) == "spent = 0×"
    typed(browser, "20 <= age < 31")
    assert browser.execute_script(chip) == "20 ≤ age < 31×"


@pytest.mark.parametrize("text", ["", "ill=yes", "age > 43, city=Ulm"])
def test_means_and_intervals_of_numbers(text, numbers, browser, tmp_path):
    show(browser, explore(numbers), tmp_path)
    if text:
        typed(browser, text)
    found = browser.execute_script(
        "return explorer.model.columns.map(({extent}, i) => (extent ? explorer.number(i).text : null))"
    )
    expected = cj.marginals(numbers, text)
    for name in numbers.domain.numeric:
        scale = numbers.domain.numbers(name).scale
        words = found[numbers.domain.index(name)]
        shown = re.fullmatch(r"mean (.*), median (.*), 90% from (.*) to (.*)", words)
        values = [scale.number(text) for text in shown.groups()]
        number = expected[name]
        ends = [scale.number(x) for x in (number.median(), *number.interval())]
        extent = scale.high - scale.low
        np.testing.assert_allclose(values, [number.mean(), *ends], rtol=0, atol=0.01 * extent)
    card = "return document.querySelector('.card[data-column=\"1\"] .summary').textContent"
    assert browser.execute_script(card) == found[1]


def test_random_rows_have_values(numbers, browser, tmp_path):
    show(browser, explore(numbers), tmp_path)
    age, dose = (numbers.domain.index(name) for name in ("age", "dose"))
    typed(browser, "age > 43, spent = 120")
    browser.execute_script("explorer.view('rows')")
    draw = (
        "let rows = []; for (let k = 0; k < 200; k++) {"
        "[...document.querySelectorAll('#rows button')].find((b) => /Draw/.test(b.textContent)).click();"
        "rows.push(...explorer.rows.drawn); } return rows"
    )
    rows = browser.execute_script(draw)
    assert len(rows) == 2400
    assert {row[numbers.domain.index("spent")] for row in rows} == {"120"}
    assert min(int(row[age]) for row in rows) == 44
    p = browser.execute_script("return [...explorer.after[arguments[0]]]", dose)
    expected = NumberDistributions.of_states(numbers.domain.numbers("dose"), np.array([p]))
    drawn = np.array([float(row[dose]) for row in rows])
    for x in np.quantile(drawn, [0.1, 0.3, 0.5, 0.7, 0.9]):
        assert (drawn <= x + 1e-9).mean() == pytest.approx(expected.cdf(x)[0], abs=0.04)


def test_conditions_are_typed(numbers, browser, tmp_path):
    from selenium.webdriver.common.keys import Keys

    show(browser, explore(numbers), tmp_path)
    box = browser.find_element("id", "search")
    box.send_keys("age >= 43 and ill=yes, city != Ulm", Keys.ENTER)
    assert (
        browser.execute_script("return conditions(explorer.store)")
        == "age >= 43, ill=yes, city=Bonn"
    )
    assert box.get_attribute("value") == ""
    browser.execute_script("explorer.store.undo()")  # one step back
    assert evidence(browser) == []
    box.send_keys("age > 43", Keys.ENTER)
    ((at, piece),) = evidence(browser)
    for text, words in [
        ("age > old", "“old” is not a number"),
        ("agee > 3", "There is no column agee"),
        ("ill=maybe", "ill has no state “maybe”"),
        ("ill=YES", "did you mean “yes”"),
        ("ill > 3", "in no order"),
        ("seen > 2024", "is not a date"),
        ("age in {3", "braces do not match"),
        ('ill="yes', "quote is not closed"),
        ("ill likelihood {yes: 1}", "no likelihood for ill = no"),
        ("ill likelihood {yes: x, no: 1}", "is not STATE: NUMBER"),
        ("ill marginal {yes: 0.5, no: 0.6}", "sum to 1.1, not to 1"),
        ("ill marginal {yes: 0.5, no: 0.5}, ill=yes", "new marginal and another condition"),
        ("age > 50, age < 40", "No value of age fits all conditions"),
        ("= 3", "is not a condition"),
    ]:
        browser.execute_script("explorer.setConditions(arguments[0])", text)
        assert words in browser.find_element("id", "toast").get_attribute("textContent"), text
    assert evidence(browser) == [[at, piece]]


def test_numbers_in_use(numbers, browser, tmp_path):
    show(browser, explore(numbers, as_table(frame_of_numbers())), tmp_path, "#/target=ill:yes")
    typed(browser, "age > 43, ill=no")
    browser.execute_script("explorer.store.set(0, null)")
    wait(browser, "explorer.questions && explorer.explained")
    assert "What explains" in browser.find_element("id", "target").text
    browser.execute_script("explorer.store.pin(1)")
    assert "90% from" in browser.find_element("id", "target").text


def test_frequencies_of_numbers(numbers):
    frame = frame_of_numbers()
    table = as_table(frame)
    made = explore(numbers, table)
    column = next(c for c in content_of(made.html)["columns"] if c["name"] == "spent")
    assert sum(column["table"]) == pytest.approx(1, abs=1e-4)
    zero = numbers.domain["spent"].index(0)
    assert column["table"][zero] == pytest.approx((frame["spent"] == 0).mean(), abs=1e-5)
    assert column["singles"][zero] == 0


# --- what one finds ----------------------------------------------------------------------------------


def test_two_situations_are_compared(numbers, browser, tmp_path):
    show(browser, explore(numbers), tmp_path)
    typed(browser, "city=Ulm, age > 43")
    button(browser, "Compare").click()
    browser.execute_script("explorer.store.clear(); explorer.setConditions('ill=yes')")
    before, after = browser.execute_script(
        "return [explorer.before, explorer.after].map((all) => all.map((p) => [...p]))"
    )
    assert_agree(numbers, before, cj.marginals(numbers, "city=Ulm, age > 43"), 1e-9)
    assert_agree(numbers, after, cj.marginals(numbers, "ill=yes"), 1e-9)
    assert "A city = Ulm, age > 43" in browser.find_element("id", "compared").text
    bar = option(browser, numbers.domain.index("ill"), 0).get_attribute("title")
    assert ", in A " in bar
    address = browser.execute_script("return explorer.store.address")
    button(browser, "Swap").click()
    assert browser.execute_script("return conditions(explorer.store)") == "city=Ulm, age > 43"
    browser.execute_script("explorer.store.compare(null); explorer.store.clear()")
    assert browser.execute_script("return [...explorer.before[0]]") == browser.execute_script(
        "return [...explorer.prior[0]]"
    )
    browser.execute_script("explorer.store.address = arguments[0]", address)
    again = browser.execute_script("return explorer.before.map((p) => [...p])")
    assert again == before


def test_findings_are_saved(numbers, browser, tmp_path):
    import csv
    import xml.etree.ElementTree as ET

    show(browser, explore(numbers, title="<b>&"), tmp_path)
    typed(browser, "age > 43, city=Ulm")
    table, picture = browser.execute_script("return [tableOf(explorer), pictureOf(explorer)]")
    head, *rows = csv.reader(table.splitlines())
    assert head == ["column", "state", "nothing known", "age > 43, city=Ulm"]
    prior, given = cj.marginals(numbers), cj.marginals(numbers, "age > 43, city=Ulm")
    for name, state, before, after in rows:
        place = [str(s) for s in numbers.domain[name].states].index(state)
        assert float(before) == pytest.approx(prior.array(name)[place], rel=1e-5)
        assert float(after) == pytest.approx(given.array(name)[place], rel=1e-5, abs=1e-12)
    assert len(rows) == sum(map(len, numbers.domain))
    words = " ".join(e.text or "" for e in ET.fromstring(picture).iter())
    assert "age > 43, city = Ulm" in words and "<b>&" in words


def test_the_probability_is_said_in_rows(numbers, browser, tmp_path):
    show(browser, explore(numbers), tmp_path)
    typed(browser, "age > 43, city=Ulm")
    p = float(cj.probability(numbers, "age > 43, city=Ulm"))
    assert f"≈ {round(400 * p)} of 400 rows" in browser.find_element("id", "probability").text
    typed(browser, "age = 40")  # the density of a number is no probability
    p = float(cj.probability(numbers, "age = 40"))
    found = browser.execute_script("return Math.exp(explorer.log)")
    assert found == pytest.approx(p, abs=1e-9)
    typed(browser, "ill likelihood {yes: 1, no: 0.5}")
    assert "Likelihood of all this" in browser.find_element("id", "probability").text


def test_bars_have_one_scale_and_known_columns_come_first(browser, tmp_path):
    model = many_states()
    show(browser, explore(model), tmp_path, "#x3=s2&x1=s4")
    assert browser.execute_script("return explorer.cards.order.slice(0, 2)") == [3, 1]
    widths = browser.execute_script(
        "return [...document.querySelectorAll('.card:not(.evident) .state')].map((row) => {"
        "const i = Number(row.closest('.card').dataset.column), s = Number(row.dataset.state);"
        "const [keep, gain] = [...row.querySelectorAll('.bar i')].map((e) => parseFloat(e.style.width));"
        "return [keep + gain, 100 * explorer.after[i][s]]; })"
    )
    assert len(widths) > 10
    np.testing.assert_allclose(*zip(*widths, strict=True), atol=0.02)


@pytest.mark.parametrize("columns", [10, 40, 100])
def test_the_letters_of_the_graph_can_be_read(columns, browser, tmp_path):
    rng = np.random.default_rng(columns)
    domain = domain_of([2] * columns, prefix="a column ")
    links = [(int(rng.integers(i)), i) for i in range(1, columns)]
    factors = [TableFactor(link, rng.normal(size=(2, 2), scale=2)) for link in links]
    show(
        browser,
        explore(MarkovNetwork(domain, factors=factors)),
        tmp_path,
        "#/target=a%20column%203",
    )
    sizes = "return [...document.querySelectorAll('.node text')].map((e) => e.getScreenCTM().a)"
    assert min(browser.execute_script(sizes)) >= 9.9  # pixels per em
    inside = (
        "const box = document.querySelector('.graph').getBoundingClientRect();"
        "const at = document.querySelector('.node.target').getBoundingClientRect();"
        "return at.left >= box.left - 1 && at.right <= box.right + 1 && at.top >= box.top - 1"
        " && at.bottom <= box.bottom + 1"
    )
    assert browser.execute_script(inside)


@pytest.mark.parametrize("width", [800, 1024])
def test_in_the_middle_the_target_is_a_tab(width, browser, tmp_path):
    resize(browser, width, 800)
    show(browser, explore(tables()), tmp_path, "#/target=x1")
    visible = "return [...arguments].map((id) => document.getElementById(id).checkVisibility())"
    assert browser.execute_script(visible, "target", "graph", "tab-target") == [True, False, True]
    browser.find_element("id", "tab-graph").click()
    assert browser.execute_script(visible, "target", "graph") == [False, True]
    top = "return document.getElementById('graph').getBoundingClientRect().top"
    assert browser.execute_script(top) < 250


# --- without a browser -------------------------------------------------------------------------------


def test_the_page_is_self_contained():
    made = explore(tables())
    assert set(re.findall(r"https?://[^\"' ]*", made.html)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(link|img|iframe)\b|\bsrc=|@import|url\(", made.html)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', made.html)[1]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        body = re.search(rf"<{tag}>(.*?)</{tag}>", made.html, re.DOTALL)[1]
        digest = b64encode(sha256(body.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_the_command(tmp_path, capsys):
    model, page = tmp_path / "m.conjoin", tmp_path / "page.html"
    zeros().save(model)
    cj.write_table(cj.sample(zeros(), 30), tmp_path / "rows.csv")
    arguments = ["explore", str(model), "-o", str(page), "--data", str(tmp_path / "rows.csv")]
    assert main(arguments) == 0
    assert "7 columns" in capsys.readouterr().out
    assert content_of(page.read_text("utf-8"))["rows"] == 30
    assert main(["explore", str(model), "-o", "page.txt"]) == 1
    assert "must end in .html" in capsys.readouterr().err


def test_a_dependency_network_has_to_be_converted():
    dn = cj.DependencyNetwork(
        cj.Domain({"a": [0, 1]}), [cj.TableCPD.of(cj.Domain({"a": [0, 1]}), "a", [], 0.2)]
    )
    with pytest.raises(cj.ConjoinError, match="convert"):
        explore(dn)


@pytest.mark.parametrize("kind", KINDS)
def test_the_tables_of_the_tree_add_up_to_the_log_potential(kind):
    model = as_markov_network(KINDS[kind]())
    domain, tree = model.domain, browser_tree(model)
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, c, 200) for c in domain.cards], axis=1)
    if len(tree.sizes) > len(domain.observed):
        pytest.skip("auxiliary variables stand for conjunctions")
    lanes = np.zeros(200, np.int64)
    for v in np.flatnonzero(domain.hidden).tolist():
        lanes = lanes * domain.cards[v] + codes[:, v]
    state = {p: codes[:, v] for v, p in enumerate(tree.places) if p >= 0}
    total = np.zeros(200)
    for table in tree.tables:
        assert table.clique < 0 or set(table.variables) <= set(tree.cliques[table.clique])
        values = table.values[tuple(state[v] for v in table.variables)]
        if table.low_rank:
            values = values @ tree.basis
        if table.has_lanes:
            values = np.broadcast_to(values, (200, tree.lanes))[np.arange(200), lanes]
        total = total + values
    expected = sum((f.evaluate(codes) for f in model.factors), model.features.evaluate(codes))
    np.testing.assert_allclose(total, expected, rtol=1e-12, atol=1e-11)


def test_low_rank_tables_take_less_space():
    model = hidden()
    tree = browser_tree(model)
    assert len(tree.basis) == 3  # two shifts, and what all lanes have in common
    stored = sum(t.values.size for t in tree.tables) + tree.basis.size
    assert stored < 0.7 * sum(f.table.size for f in model.factors)
    rng = np.random.default_rng(0)
    full = [LaneTable((0, 1), rng.normal(size=(3, 3, 16)), True, 0)]
    same, basis = compact(full, 16)
    assert same == full and len(basis) == 0


def test_a_table_with_impossible_cells_does_not_keep_others_from_low_rank():
    rng = np.random.default_rng(1)
    low = rng.normal(size=(36, 2)) @ rng.normal(size=(2, 64))
    wide = LaneTable((0, 1), low.reshape(6, 6, 64), True, 0)
    implied = LaneTable((0,), np.where(rng.random((6, 64)) < 0.5, 0.0, -np.inf), True, 0)
    found, basis = compact([wide, implied], 64)
    assert implied in found
    assert sum(t.values.size for t in found) + basis.size < wide.values.size + implied.values.size
    total = np.zeros((6, 6, 64))
    for t in found:
        values = t.values @ basis if t.low_rank else t.values
        shape = [6 if v in t.variables else 1 for v in (0, 1)]
        total = total + values.reshape(*shape, -1)
    expected = wide.values + implied.values[:, None]
    possible = np.isfinite(expected)
    np.testing.assert_array_equal(possible, np.isfinite(total))
    np.testing.assert_allclose(total[possible], expected[possible], atol=1e-11)


def test_associations_are_mutual_information():
    model = zeros()
    found = joints_of(model)
    assert found.exact
    for a, b in [(0, 1), (2, 5), (3, 3)]:
        names = [model.domain.names[v] for v in (a, b)]
        if a == b:
            p = cj.marginals(model).array(names[0])
            expected = -(p[p > 0] * np.log2(p[p > 0])).sum()
        else:
            pair = cj.inference.joint_distribution(model, names).table
            outer = np.outer(pair.sum(axis=1), pair.sum(axis=0))
            expected = (pair[pair > 0] * np.log2(pair[pair > 0] / outer[pair > 0])).sum()
        assert found.bits[a, b] == pytest.approx(expected, abs=1e-9)
    rows = cj.sample(model, 20_000)
    np.testing.assert_allclose(counted_joints(rows).bits, found.bits, atol=0.03)


def test_expensive_associations_are_counted_in_drawn_rows():
    found = joints_of(tables(), max_seconds=0.0)
    assert not found.exact
    np.testing.assert_allclose(found.bits, joints_of(tables()).bits, atol=0.03)


def test_every_script_is_used():
    folder = page_module.files("conjoin.views.explorer")
    assert {p.name for p in folder.iterdir() if p.name.endswith(".js")} == set(page_module.SCRIPTS)
