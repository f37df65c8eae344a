"""`load` and `save`: the ending of a file's name decides its format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from conjoin.errors import FormatError, names_lack_of_memory
from conjoin.formats.storage import check_ending, check_folder, ending, ending_error, function_for

if TYPE_CHECKING:
    from conjoin.models.network import Network

DN, MN, BN = "dependency network", "Markov network", "Bayesian network"


class ModelFormat(NamedTuple):
    """The functions that read and write a format, and the kinds of model that are written in it."""

    reader: str  # a module and a name in it, imported when they are needed; empty if there is none
    writer: str
    kinds: tuple[str, ...]


FORMATS = {
    ".conjoin": ModelFormat("native.read_native", "native.write_native", (DN, MN, BN)),
    ".dn": ModelFormat("libra_reading.read_network", "libra_writing.write_network", (DN,)),
    ".mn": ModelFormat("libra_reading.read_network", "libra_writing.write_network", (MN,)),
    ".bn": ModelFormat("libra_reading.read_network", "libra_writing.write_network", (BN,)),
    ".uai": ModelFormat("uai.read_uai", "uai.write_uai", (MN, BN)),
    ".bif": ModelFormat("bif.read_bif", "bif_writing.write_bif", (BN,)),
    ".toml": ModelFormat("expert.read_expert", "", ()),
}
"""The formats of models, by the endings of files."""


@names_lack_of_memory
def load(path: str | Path) -> Any:
    """Read a model.

    Parameters
    ----------
    path : str or Path
        A file whose ending names its format: .conjoin, Libra's .dn, .mn and .bn, .uai, .bif, or an
        expert's .toml; each may be followed by .gz.

    Returns
    -------
    DependencyNetwork, MarkovNetwork or BayesianNetwork
        Or a Joint: what `learn_joint` learned. Of the file of a `JointModel`, its model.
    """
    path = Path(path)
    readers = {kind: known.reader for kind, known in FORMATS.items() if known.reader}
    check_ending(path, readers, "model")
    return function_for(readers, path)(path)


def check_can_save(model_kind: type[Network], path: str | Path) -> None:
    """Raise the error that saving a model of this kind under this name would raise later."""
    path = Path(path)
    kind = ending(path)
    fitting = ", ".join(e for e, known in FORMATS.items() if model_kind.kind in known.kinds)
    if kind not in FORMATS or not FORMATS[kind].writer:
        raise FormatError(
            f"{ending_error(kind)} of a format that models are written in; use {fitting}", str(path)
        )
    if model_kind.kind not in FORMATS[kind].kinds:
        raise FormatError(
            f"a {model_kind.kind} cannot be written as {kind}; use {fitting}", str(path)
        )
    check_folder(path)


@names_lack_of_memory
def save(model: Any, path: str | Path) -> None:
    """Write a network or a fitted `JointModel`, completely or not at all.

    The names of formats that have none go into a file beside it (FILE.names.json), which `load` reads.
    The same holds for the mark of hidden columns; to other programs they are ordinary variables.
    """
    path = Path(path)
    if hasattr(model, "_known"):  # an estimator, which writes more
        model.save(path)
        return
    check_can_save(type(model), path)
    writers = {kind: known.writer for kind, known in FORMATS.items()}
    function_for(writers, path)(model, path)
