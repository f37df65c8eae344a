"""Dependency networks written by hand, in TOML (docs/guide/expert.md)."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from conjoin.data.domain import Domain, Variable
from conjoin.errors import ConjoinError, FormatError, did_you_mean
from conjoin.formats.storage import MAX_KEY_PARTS, read_text
from conjoin.models.cpd import CPD, log_distribution
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.log_linear_cpd import LogLinearCPD
from conjoin.models.rule_cpd import RuleCPD
from conjoin.models.table_cpd import TableCPD

FORMS = ("table", "rules", "log_odds")


class _Place:
    """The location of keys in the file, for error messages."""

    def __init__(self, text: str, path: str) -> None:
        self.text, self.path = text, path

    def line(self, keys: list[str], number: int | None = None) -> int | None:
        """Return the line of a header such as [[wet.table]], or of the key itself."""
        quoted = [rf'(?:"{re.escape(k)}"|\'{re.escape(k)}\'|{re.escape(k)})' for k in keys]
        for depth in range(len(quoted), 0, -1):
            header = r"\s*\.\s*".join(quoted[:depth])
            places = list(re.finditer(rf"^\s*\[+\s*{header}\s*\]+", self.text, re.MULTILINE))
            if not places and depth == 1:  # a longer header, or a key at the top
                places = list(re.finditer(rf"^\s*\[*\s*{header}\s*[.=]", self.text, re.MULTILINE))
            if places:
                entry = min(number or 0, len(places) - 1) if depth == len(quoted) else 0
                start = places[entry].end()
                if depth < len(quoted):
                    key = re.compile(rf"^\s*{quoted[depth]}\s*=", re.MULTILINE)
                    inside = key.search(self.text, start)
                    start = inside.end() if inside else start
                return self.text.count("\n", 0, start) + 1
        return None

    def error(self, message: str, keys: list[str], number: int | None = None) -> FormatError:
        label = ".".join(keys)
        if number is not None:
            label = f"{label}, entry {number + 1}"
        return FormatError(f"[{label}] {message}", self.path, self.line(keys, number))


def _check_keys(text: str, path: Path) -> None:
    """Reject very long dotted keys, which take quadratic time to read."""
    part = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
    many = re.compile(rf"(?<![\w.-]){part}(?:[ \t]*+\.[ \t]*+{part}){{{MAX_KEY_PARTS.value},}}+")
    match = many.search(text)
    if match:
        line = text.count("\n", 0, match.start()) + 1
        raise FormatError(f"a key is too long: {MAX_KEY_PARTS.exceeded()}", str(path), line)


def read_expert(path: Path) -> DependencyNetwork:
    """Read a dependency network from a .toml file."""
    text = read_text(path)
    _check_keys(text, path)
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        match = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        line = int(match[1]) if match else None
        message = str(error).split(" (at")[0] or "nested too deeply"
        raise FormatError(f"is not valid TOML: {message}", str(path), line) from None
    place = _Place(text, str(path))
    domain = _domain(content.pop("variables", None), place)
    for name in content:
        if name not in domain.names:
            raise place.error(
                f"there is no variable {name!r} under [variables]. "
                + did_you_mean(name, domain.names),
                [name],
            )
    cpds = []
    for variable in domain:
        if variable.name not in content:
            raise place.error(
                f"{variable.name!r} has no distribution; add a section [{variable.name}] with "
                f"{', '.join(FORMS)}",
                ["variables"],
            )
        cpds.append(_cpd(domain, variable, content[variable.name], place))
    return DependencyNetwork(domain, cpds, {"read_from": path.name})


def _domain(section: Any, place: _Place) -> Domain:
    if not isinstance(section, dict) or not section:
        raise place.error(
            'the section is missing or empty; it lists each variable, such as rain = ["no", "yes"]',
            ["variables"],
        )
    variables = []
    for name, states in section.items():
        if name == "variables":
            raise place.error("a variable cannot be called 'variables'", ["variables"])
        if not isinstance(states, list) or len(states) < 2:
            raise place.error(
                f'{name} needs a list of two states or more, such as {name} = ["no", "yes"]',
                ["variables", name],
            )
        try:
            variables.append(Variable(name, states))
        except ConjoinError as error:
            raise place.error(str(error), ["variables", name]) from None
    return Domain(variables)


def _cpd(domain: Domain, variable: Variable, section: Any, place: _Place) -> CPD:
    name = variable.name
    section = section if isinstance(section, dict) else {}
    given = [form for form in FORMS if form in section]
    unknown = [key for key in section if key not in (*FORMS, "given")]
    if unknown:
        raise place.error(
            f"{unknown[0]!r} is not understood. " + did_you_mean(unknown[0], [*FORMS, "given"]),
            [name],
        )
    if len(given) != 1:
        raise place.error(f"one of {', '.join(FORMS)} is needed, not {given or 'none'}", [name])
    entries = section[given[0]]
    if not (isinstance(entries, list) and entries and all(isinstance(e, dict) for e in entries)):
        raise place.error(
            f"a list of entries is needed, each under a line [[{name}.{given[0]}]]",
            [name, given[0]],
        )
    build = {"table": _table, "rules": _rules, "log_odds": _log_odds}[given[0]]
    if "given" in section and given[0] != "table":
        raise place.error("'given' can only be used with 'table'", [name])
    try:
        return build(domain, variable, section, place)
    except FormatError:
        raise
    except ConjoinError as error:
        raise place.error(str(error), [name, given[0]]) from None


def _condition(domain: Domain, entry: dict[str, Any], target: str) -> dict[str, Any]:
    when = entry.get("when", {})
    if not isinstance(when, dict):
        raise ConjoinError("'when' must contain conditions, such as { rain = \"yes\" }")
    result = {}
    for name, states in when.items():
        variable = domain[name]
        if name == target:
            raise ConjoinError(f"'when' must not mention {target!r} itself")
        if isinstance(states, dict):
            if list(states) != ["not"]:
                raise ConjoinError('a condition must be a state, a list of states or { not = "x" }')
            codes = variable.indices(states["not"])
            states = [s for c, s in enumerate(variable.states) if c not in codes]
        variable.indices(states)
        result[name] = states
    return result


def _keys(entry: dict[str, Any], allowed: tuple[str, ...]) -> None:
    for key in entry:
        if key not in allowed:
            raise ConjoinError(f"{key!r} is not understood. " + did_you_mean(key, allowed))


def _distribution(variable: Variable, entry: dict[str, Any]) -> Any:
    if "p" not in entry:
        raise ConjoinError(f"'p', the probabilities of {variable.name!r}, is missing")
    p = entry["p"]
    if isinstance(p, dict) and any(isinstance(value, dict) for value in p.values()):
        raise ConjoinError('a state with a dot needs quotes, such as { "0.5" = 0.2, "1.5" = 0.8 }')
    if isinstance(p, dict):  # TOML's keys are strings, whatever the type of the states
        by_text = {str(s): s for s in variable.states}
        by_text |= {str(s).lower(): s for s in variable.states if isinstance(s, bool)}
        for key in p:
            if key not in by_text:
                variable.index(key)
        p = {by_text[key]: value for key, value in p.items()}
    logs = log_distribution(variable, p)
    if np.isneginf(logs).any():
        raise ConjoinError(
            f"a probability of {variable.name!r} is 0 or 1, which no evidence could ever change; use a "
            "small number such as 0.001 instead of 0"
        )
    return p


def _each(
    place: _Place, name: str, form: str, entries: list[dict[str, Any]], read: Any
) -> list[Any]:
    result = []
    for number, entry in enumerate(entries):
        try:
            result.append(read(entry))
        except ConjoinError as error:
            raise place.error(str(error), [name, form], number) from None
    return result


def _table(domain: Domain, variable: Variable, section: dict[str, Any], place: _Place) -> CPD:
    parents = section.get("given", [])
    if not isinstance(parents, list) or not all(isinstance(p, str) for p in parents):
        raise place.error(
            "'given' must be a list of names, such as given = [\"rain\"]", [variable.name]
        )

    def read(entry: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
        _keys(entry, ("when", "p"))
        when = _condition(domain, entry, variable.name)
        if when and "given" not in section:
            raise ConjoinError(
                f"add a line given = {json.dumps(list(when))} under [{variable.name}]"
            )
        if set(when) != set(parents):
            raise ConjoinError(
                f"'when' must give a state of each of {parents} (the list 'given'), and no other; "
                f"it gives {sorted(when)}"
            )
        for name, state in when.items():
            if isinstance(state, list):
                raise ConjoinError(
                    f"{name!r} must have one state here; use rules for lists of states"
                )
        return tuple(when[p] for p in parents), _distribution(variable, entry)

    for parent in parents:
        if parent == variable.name or parents.count(parent) > 1:
            raise place.error(f"{parent!r} must not be in 'given'", [variable.name, "given"])
        if parent not in domain.names:
            hint = did_you_mean(parent, domain.names)
            raise place.error(f"there is no variable {parent!r}. {hint}", [variable.name, "given"])
    rows = _each(place, variable.name, "table", section["table"], read)
    seen: set[Any] = set()
    for number, (key, _) in enumerate(rows):
        if key in seen:
            raise place.error("the same 'when' is given twice", [variable.name, "table"], number)
        seen.add(key)
    return TableCPD.of(domain, variable.name, parents, dict(rows) if parents else rows[0][1])


def _rules(domain: Domain, variable: Variable, section: dict[str, Any], place: _Place) -> CPD:
    def read(entry: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        _keys(entry, ("when", "p"))
        return _condition(domain, entry, variable.name), _distribution(variable, entry)

    rules = _each(place, variable.name, "rules", section["rules"], read)
    for number, (when, _) in enumerate(rules[:-1]):
        if not when:
            raise place.error(
                "a rule without 'when' always holds, so the rules after it never apply; put it last",
                [variable.name, "rules"],
                number,
            )
    if rules[-1][0]:
        raise place.error(
            "the last rule must have no 'when': it applies when no other rule does",
            [variable.name, "rules"],
            len(rules) - 1,
        )
    return RuleCPD.of(domain, variable.name, rules)


def _log_odds(domain: Domain, variable: Variable, section: dict[str, Any], place: _Place) -> CPD:
    def read(entry: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        _keys(entry, ("when", "state", "add"))
        weight: Any = entry.get("add")
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not number or not abs(weight) <= sys.float_info.max:
            raise ConjoinError("'add', a number in nats, is missing or not a number")
        if "state" not in entry:
            raise ConjoinError(f"'state', a state of {variable.name!r}, is missing")
        variable.index(entry["state"])
        when = _condition(domain, entry, variable.name)
        return float(weight), {**when, variable.name: entry["state"]}

    terms = _each(place, variable.name, "log_odds", section["log_odds"], read)
    return LogLinearCPD.of(domain, variable.name, terms)
