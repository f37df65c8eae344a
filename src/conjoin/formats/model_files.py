"""`load` and `save`: the ending of a file's name decides its format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from conjoin.errors import FormatError, names_lack_of_memory
from conjoin.formats.endings import check_ending, check_folder, ending_error, function_for
from conjoin.formats.storage import ending

if TYPE_CHECKING:
    from conjoin.models.mixed import MixedNetwork
    from conjoin.models.network import Network

# The function for each ending, imported when it is needed.
MODEL_READERS = {
    ".conjoin": "native.read_native",
    ".dn": "libra_reading.read_network",
    ".mn": "libra_reading.read_network",
    ".bn": "libra_reading.read_network",
    ".uai": "uai.read_uai",
    ".bif": "bif.read_bif",
    ".toml": "expert.read_expert",
}
MODEL_WRITERS = {
    ".conjoin": "native.write_native",
    ".dn": "libra_writing.write_network",
    ".mn": "libra_writing.write_network",
    ".bn": "libra_writing.write_network",
    ".uai": "uai.write_uai",
    ".bif": "bayesian_writing.write_bif",
    ".net": "bayesian_writing.write_net",
    ".xdsl": "bayesian_writing.write_xdsl",
}
NETWORKS = ("dependency network", "Markov network", "Bayesian network")
WRITTEN_MODELS = {
    ".conjoin": (*NETWORKS, "mixed network"),
    ".dn": ("dependency network",),
    ".mn": ("Markov network",),
    ".bn": ("Bayesian network",),
    ".uai": ("Markov network", "Bayesian network"),
    ".bif": ("Bayesian network",),
    ".net": ("Bayesian network",),
    ".xdsl": ("Bayesian network",),
}
"""The kinds of model that each format can hold."""


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
        Or, if the model has columns of numbers, a MixedNetwork. Of the file of a `JointModel`, its model.
    """
    path = Path(path)
    check_ending(path, MODEL_READERS, "model")
    return function_for(MODEL_READERS, path)(path)


def check_can_save(model_kind: type[Network | MixedNetwork], path: str | Path) -> None:
    """Raise the error that saving a model of this kind under this name would raise later."""
    path = Path(path)
    kind = ending(path)
    fitting = ", ".join(e for e, kinds in WRITTEN_MODELS.items() if model_kind.kind in kinds)
    if kind not in WRITTEN_MODELS:
        raise FormatError(
            f"{ending_error(kind)} of a format that models are written in; use {fitting}", str(path)
        )
    if model_kind.kind not in WRITTEN_MODELS[kind]:
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
    if hasattr(model, "as_network"):  # an estimator, which writes more
        model.save(path)
        return
    check_can_save(type(model), path)
    function_for(MODEL_WRITERS, path)(model, path)
