"""Steps of building the site: formulas become MathML, files of the repository pages, models explorers."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
EXAMPLE = re.compile(r"<!-- example: ([a-z_]+) -->")
DOCUMENTED = re.compile(r"^::: (conjoin\.[\w.]+)$", re.MULTILINE)
INCLUDED = re.compile(r"<!-- include: ([A-Za-z.]+) -->")
LIVE = {
    "measurements": "#bmi=words:bmi%20%3E%2030&/target=ldl",
    "typing_errors": "#home=cage&/target=animal",
    "simpson": "#treatment=A&/target=success:yes",
    "diagnosis": "#season=winter&cough=yes&/target=disease:flu",
    "customers": "#apples=1&bananas=1&/target=honey",
    "digits": "#/target=v0",
}
"""The examples of the gallery, and what their explorers show at first."""

LINK = re.compile(r"\]\((?!https?:|#)([^)]+)\)")
CODE = re.compile(r"(```.*?```|`[^`\n]+`)", re.DOTALL)
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$(?! )([^$\n]+?)(?<! )\$", re.DOTALL)


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Add a page for each class and function that the pages of the reference list."""
    from mkdocs.structure.files import File

    for path in sorted((ROOT / "docs" / "reference" / "api").glob("*.md")):
        for name in DOCUMENTED.findall(path.read_text(encoding="utf-8")):
            title, alone = name.rpartition(".")[2], "    options: { show_root_heading: false }"
            text = f"# {title}\n\n::: {name}\n{alone}\n"
            files.append(File.generated(config, f"reference/api/{_place(name)}", content=text))
    return files


def _place(name: str) -> str:
    """Return the path of a page: `marginals` and `Marginals` must not be one file anywhere."""
    short = name.rpartition(".")[2]
    return f"{'classes' if short[0].isupper() else 'functions'}/{short}.md"


def _listed(match: re.Match[str]) -> str:
    """Return a link to the page of a class or function, with the first line of its docstring."""
    module, _, short = match[1].rpartition(".")
    about = (getattr(import_module(module), short).__doc__ or "").partition("\n")[0]
    return f"- [`{short}`]({_place(match[1])}): {about}"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put in what a page includes, and turn $...$ and $$...$$ into MathML."""
    if page.file.src_uri.startswith("reference/api/") and not page.file.generated_by:
        return DOCUMENTED.sub(_listed, markdown)
    markdown = INCLUDED.sub(lambda match: _included(match[1]), markdown)
    markdown = EXAMPLE.sub(lambda match: _example(match[1]), markdown)
    if "$" not in markdown:
        return markdown
    parts = CODE.split(markdown)  # code is every second part
    return "".join(p if i % 2 else FORMULA.sub(_mathml, p) for i, p in enumerate(parts))


def _included(name: str) -> str:
    """Return a file of the repository's top folder, with links as a page of the site has them."""
    return LINK.sub(_moved, (ROOT / name).read_text(encoding="utf-8"))


def _example(name: str) -> str:
    """Return a script of the gallery as a section: its docstring, its picture and its code."""
    code = (ROOT / "docs" / "gallery" / f"{name}.py").read_text(encoding="utf-8")
    about, rest = code.removeprefix('"""').split('"""', 1)
    title, text = about.strip().split("\n\n", 1)
    return (
        f"## {title.rstrip('.')}\n\n{text}\n\n![{title}](gallery/{name}.svg)\n\n"
        f'<p><a href="../live/{name}.html{LIVE[name]}">Open its explorer</a></p>\n\n'
        f'??? example "The script: docs/gallery/{name}.py"\n\n'
        "    ```python\n"
        + "\n".join(f"    {line}".rstrip() for line in rest.strip().split("\n"))
        + "\n    ```\n"
    )


def _moved(match: re.Match[str]) -> str:
    target = match[1]
    if target.startswith("docs/"):
        return f"]({target.removeprefix('docs/')})"
    if target in ("CONTRIBUTING.md", "CHANGELOG.md"):
        return f"]({target.lower()})"
    return f"](https://github.com/conjoin/conjoin/blob/main/{target})"


def _mathml(match: re.Match[str]) -> str:
    from latex2mathml.converter import convert

    display = match[1] is not None
    markup: str = convert((match[1] or match[2]).strip(), display="block" if display else "inline")
    return f'\n\n<div class="formula">{markup}</div>\n\n' if display else f"<span>{markup}</span>"


def on_post_build(config: Any, **_: Any) -> None:
    """Write the explorers to which pages link: of the example table, and of each example's model."""
    from conjoin import read_table
    from conjoin.joint import learn_joint
    from conjoin.views.explorer import explore

    folder = Path(config["site_dir"]) / "live"
    folder.mkdir(exist_ok=True)
    table = read_table(ROOT / "src" / "conjoin" / "cli" / "penguins.csv")
    page = explore(learn_joint(table)[1], table, title="344 penguins", file="penguins.conjoin")
    page.save(folder / "penguins.html")
    for name in LIVE:
        explore(_model(name), title=name.replace("_", " ").capitalize()).save(
            folder / f"{name}.html"
        )


def _model(name: str) -> Any:
    """Run an example of the gallery, and return its model."""
    scripts = ROOT / "docs" / "gallery"
    before = sys.argv[:], sys.path[:]
    with tempfile.TemporaryDirectory() as unused, contextlib.redirect_stdout(io.StringIO()):
        sys.argv[1:], sys.path[:0] = [unused], [str(scripts)]
        try:
            return runpy.run_path(str(scripts / f"{name}.py"))["model"]
        finally:
            sys.argv[:], sys.path[:] = before
