"""Arguments that several commands share, declared and checked in one place."""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conjoin.errors import DataError, FormatError, ModelError

if TYPE_CHECKING:
    from conjoin.data.arrays import BoolArray
    from conjoin.data.domain import Domain
    from conjoin.data.table import Table
    from conjoin.formats.csv_dialect import Dialect
    from conjoin.inference.results import Run
    from conjoin.models.network import Network

TABLE_FORMATS = "(.csv, .parquet, .xlsx, .data)"
WRITTEN_FORMATS = "(.csv, .parquet, .data)"
MARKOV_FORMATS = "(.conjoin, .mn, .uai)"
CONDITIONS = (
    "comma-separated conditions NAME=STATE, NAME != STATE, NAME in {A, B}, NAME > 40 or 20 <= NAME < 30; "
    'put a name or a state that contains a comma or one of = < > ! { } in double quotes ("A, B"=yes) and '
    "double any quotes inside it"
)


SHARED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "MODEL": ("", "the model, in any format that can be read", {}),
    "TABLE": ("", f"the table {TABLE_FORMATS}", {}),
    "--given": (
        "CONDITIONS ...",
        f"the evidence: {CONDITIONS}; also NAME likelihood {{A: 0.9, B: 0.2}} (virtual evidence) "
        "and NAME marginal {A: 0.7, B: 0.3} (Jeffrey's evidence); may be repeated",
        {},
    ),
    "--missing": (
        "TEXT ...",
        "a text that stands for a missing value, instead of NA, ?, None and the like; may be "
        "repeated. Empty cells are always missing, and cells in quotation marks never",
        {"default": None},
    ),
    "--sep": ("MARK", "the separator of a .csv file, such as | or tab (default: found out)", {}),
    "--encoding": ("NAME", "the encoding of a .csv file, as latin-1 (default: found out)", {}),
    "--decimal": ("MARK", "the decimal mark of a .csv file (default: found out)", {}),
    "--unseen": (
        "",
        "what a value of the table that the model does not know counts as (default error)",
        {"choices": ("error", "missing"), "default": "error"},
    ),
    "--rule": (
        "RULE ...",
        'a relation that sampled and filled-in rows keep: "low <= high", "total = price * quantity", '
        '"total = net + tax" or, in learn, "product -> category"; may be repeated',
        {},
    ),
    "--no-rules": ("", "ignore the relations that hold in the training table", {}),
    "--jobs": ("N", "number of cores to use (default all)", {"type": int, "default": -1}),
    "--defuse": (
        "",
        "in a .csv file, put an apostrophe in front of cells that a spreadsheet program would take "
        "for a formula",
        {},
    ),
    "--json": ("", "print the result as one JSON object", {}),
}
"""Arguments with the same meaning everywhere: metavar, help and what argparse needs besides."""


def adder(parser: argparse.ArgumentParser) -> Callable[..., None]:
    """Return a function that declares an argument by its usage and its help.

    The usage is "NAME" of a positional argument, "--name" of a flag or of an option with choices,
    "--name VALUE", or "--name VALUE ..." if the option may be repeated.
    """

    def add(usage: str, help: str, **more: Any) -> None:
        name, _, metavar = usage.partition(" ")
        if not name.startswith("-"):
            name, metavar = name.lower(), name
        elif not metavar and "choices" not in more:
            more["action"] = "store_true"
        if metavar.endswith(" ..."):
            metavar = metavar.removesuffix(" ...")
            more = {"action": "append", "default": [], **more}
        if metavar:
            more["metavar"] = metavar
        parser.add_argument(name, help=help, **more)

    return add


def add_shared(parser: argparse.ArgumentParser, *names: str) -> None:
    """Declare arguments that are listed in `SHARED`; --missing brings those on how tables are written."""
    for name in names:
        if name == "--missing":
            add_shared(parser, "--sep", "--encoding", "--decimal")
        metavar, help, more = SHARED[name]
        adder(parser)(f"{name} {metavar}".strip(), help, **more)


def add_output(
    parser: argparse.ArgumentParser, metavar: str, purpose: str, default: str | None = None
) -> None:
    """Declare -o/--output, which is required unless it has a default.

    A default such as "TABLE-filled.csv" begins with the name of the model or table, without its ending.
    """
    parser.add_argument(
        "-o", "--output", metavar=metavar, required=default is None,
        help=purpose if default is None else f"{purpose} (default {default})",
    )  # fmt: skip
    parser.set_defaults(default_output=default)


def add_random_state(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Declare --random-state, the seed of `purpose`; --seed is its older name."""
    adder(parser)("--random-state N", f"seed for {purpose} (default 0)", type=int, default=0)
    parser.add_argument(
        "--seed", dest="random_state", type=int, default=argparse.SUPPRESS, help=argparse.SUPPRESS
    )


@contextmanager
def naming_unseen() -> Iterator[None]:
    """Say in errors about values that the model does not know what to do about them."""
    try:
        yield
    except FormatError as error:
        if not re.search("is not a (state|number|date)", str(error)):
            raise
        raise ModelError(f"{error} --unseen missing takes such values as missing.") from None


def cells_to_fill(
    holes: dict[str, BoolArray], domain: Domain, options: argparse.Namespace
) -> dict[str, BoolArray]:
    """Return the cells of a table that hold no value; `holes` also counts values that are unseen."""
    from conjoin.formats.storage import ending
    from conjoin.formats.table_files import FILLED_WRITERS, empty_cells

    source, path = Path(options.table), Path(options.output)
    if options.unseen == "error" or source.is_dir():
        return holes
    empty = empty_cells(source, domain, missing=options.missing, dialect=dialect(options))
    if ending(source) == ending(path) and ending(path) in FILLED_WRITERS:
        return empty
    for name, hole in holes.items():
        if (hole & ~empty[name]).any():
            raise ModelError(
                f"column {name!r} has values that the model does not know, and only a table of the same "
                f"format can keep them; write to a .csv or .parquet file like {source}"
            )
    return holes


def evidence_columns(
    path: str, names: Collection[str], model_names: Sequence[str], target: str | None
) -> list[str]:
    """Return the columns of a table to read for a prediction: those of the model without the target.

    If the table has the target alone, that is read for its number of rows, and standard error says that
    there is no evidence.
    """
    present = [name for name in model_names if name in names and name != target]
    if present:
        return present
    if target is None or target not in names:
        listed = ", ".join(model_names[:8]) + (", ..." if len(model_names) > 8 else "")
        raise DataError(f"{path} has none of the columns of the model: {listed}")
    print(
        f"conjoin: {path} has no column of the model but the target {target!r}, so the prediction is "
        "the same for all rows",
        file=sys.stderr,
    )
    return [target]


def check_shared(options: argparse.Namespace) -> None:
    """Reject values of the shared arguments that are out of range; choose where the result goes."""
    if getattr(options, "default_output", None) and options.output is None:
        options.output = options.default_output
        if options.output.startswith(("MODEL", "TABLE")):
            source = Path(getattr(options, options.output[:5].lower()))
            stem = Path(source.name.removesuffix(".gz")).stem
            options.output = str(source.with_name(stem + options.output[5:]))
    if getattr(options, "random_state", 0) < 0:
        raise ModelError(f"--random-state must be 0 or more, not {options.random_state}")
    if getattr(options, "jobs", 1) == 0:
        raise ModelError("--jobs must not be 0; -1 uses all cores")


def csv_path(output: str, content: str) -> Path:
    """Return the path of a .csv file to write, after checking its ending and its folder."""
    from conjoin.formats.storage import check_folder

    path = Path(output)
    if path.suffix != ".csv":
        raise ModelError(f"{path}: {content} are written as .csv")
    check_folder(path)
    return path


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as the text of a .csv file."""
    page = io.StringIO()
    csv.writer(page, lineterminator="\n").writerows(rows)
    return page.getvalue()


def wanted_rules(options: argparse.Namespace) -> list[str]:
    """Return the rules that --rule and --no-rules ask for, as `rules_of` takes them."""
    return [*([] if options.no_rules else ["auto"]), *options.rule]


def with_wanted_rules(model: Network, options: argparse.Namespace) -> Network:
    """Return a model with the rules of --rule, and without its own if --no-rules says so."""
    from conjoin.data.rule_text import stated_rule
    from conjoin.data.rules import in_order

    stated = [stated_rule(text, model.domain.observed) for text in options.rule]
    kept = {rule.text: rule for rule in (*stated, *(() if options.no_rules else model.rules))}
    return model.with_rules(in_order(kept.values()))


def page_path(output: str) -> Path:
    """Return the path of a page to write, after checking its ending."""
    path = Path(output)
    if path.suffix.lower() not in (".html", ".htm"):
        raise FormatError("the name of the page must end in .html", output)
    return path


def page_title(options: argparse.Namespace) -> str:
    """Return the heading of a page about a model: by default the name of its file, without endings."""
    return options.title or bare_name(options.model)


def bare_name(path: str) -> str:
    """Return the name of a file without its endings."""
    name = Path(path).name
    return name.removesuffix(".gz").rpartition(".")[0] or name


def known_table(
    path: str, domain: Domain, options: argparse.Namespace, unseen: str | None = None
) -> Table:
    """Read a table of the columns of a model, as --missing and, if the command has it, --unseen say."""
    from conjoin.formats.table_files import read_table

    how = {"missing": options.missing, **dialect(options)._asdict()}
    if not hasattr(options, "unseen"):
        return read_table(path, domain, **how)
    with naming_unseen():
        return read_table(path, domain, unseen=unseen or options.unseen, **how)


def dialect(options: argparse.Namespace) -> Dialect:
    """Return how the tables of a command are written, as far as its options say so."""
    from conjoin.formats.csv_dialect import Dialect

    return Dialect(options.sep, options.encoding, options.decimal)


def known_rows(
    options: argparse.Namespace, domain: Domain, without: str | None = None
) -> tuple[Table, list[str]]:
    """Read the columns of a table that a model has, except one, and return their names, too."""
    from conjoin.data.frames import widened
    from conjoin.formats.table_files import table_columns

    path = options.table
    names = table_columns(path, dialect(options))
    if names is None:
        return known_table(path, domain, options), list(domain.names)
    present = evidence_columns(path, names, domain.names, without)
    part = known_table(
        path,
        domain.subset(map(domain.index, present)),
        options,
        "missing" if present == [without] else None,
    )
    part.warn_of_far_numbers(without)
    return widened(part, domain), present


def optional_table(path: str | None, domain: Domain, options: argparse.Namespace) -> Any:
    """Read a table that may not have been given (see `known_table`)."""
    return None if path is None else known_table(path, domain, options)


def seconds(options: argparse.Namespace) -> float:
    """Return the seconds since the command started."""
    return time.perf_counter() - float(options.started)


def say_if_approximate(run: Run, printed: bool = True) -> None:
    """Say on standard error that an answer is approximate, unless it is printed beside it and says so."""
    if not run.exact and not (printed and sys.stdout.isatty() and sys.stderr.isatty()):
        print(f"conjoin: the answer is approximate ({run})", file=sys.stderr)


def plain(value: Any) -> Any:
    """Return a value for JSON; dates and states that are not numbers are text."""
    return value if isinstance(value, int | float) else str(value)


def by_text(distribution: Mapping[Any, float]) -> dict[str, float]:
    """Return a distribution for JSON."""
    return {str(state): float(p) for state, p in distribution.items()}


def how_found(run: Run) -> dict[str, Any]:
    """Return for JSON how an answer was found."""
    report = {
        "method": run.method,
        "exact": run.exact,
        "converged": run.converged,
        "note": run.note,
    }
    return report if run.error is None else {**report, "error": run.error}


def print_result(options: argparse.Namespace, report: dict[str, Any], *lines: str) -> None:
    """Print the result of a command: as JSON if --json says so, or in words."""
    if options.json:
        print_json(report)
    else:
        print("\n".join(lines))


def print_json(report: dict[str, Any]) -> None:
    """Print the result of a command as one line of JSON."""
    text = json.dumps(report, ensure_ascii=False)
    if not text.isprintable():  # JSON itself escapes only the characters below the space
        kept = {c for c in set(text) if c.isprintable() or c == "\u00a0"}
        text = "".join(c if c in kept else json.dumps(c)[1:-1] for c in text)
    print(text)
