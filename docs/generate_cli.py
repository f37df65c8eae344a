"""Write docs/cli.md, the reference of the command line, from the program itself."""

from __future__ import annotations

import argparse
from pathlib import Path

from conjoin.cli.main import build_parser

PAGE = Path(__file__).with_name("cli.md")


def _call(action: argparse.Action) -> str:
    name = action.metavar or ("{" + "\\|".join(action.choices) + "}" if action.choices else "")
    if not action.option_strings:
        return f"`{action.metavar}`"
    if action.nargs == 0:
        return ", ".join(f"`{o}`" for o in action.option_strings)
    name = name or action.dest.upper()
    return ", ".join(f"`{o} {name}`" for o in action.option_strings)


def _rows(parser: argparse.ArgumentParser) -> list[str]:
    rows = ["| argument | meaning |", "|---|---|"]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction | argparse._HelpAction):
            continue
        rows.append(f"| {_call(action)} | {action.help} |")
    return rows


def page() -> str:
    """Return the text of the reference."""
    parser = build_parser()
    lines = [
        "# The command line",
        "",
        "Written by `python docs/generate_cli.py` from the program; do not edit it by hand.",
        "",
        "Every command prints an error in one line on standard error and exits with a status other",
        "than 0: 1 for a bad file or argument, 2 for wrong usage. Output files are written whole or not",
        "at all.",
    ]
    commands = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    for name, command in commands.choices.items():
        lines += ["", f"## conjoin {name}", "", str(command.description), "", *_rows(command)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
