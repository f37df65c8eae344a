"""Where the optional data folders are, and how hypothesis runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from headless import browser as browser
from headless import chromium as chromium

settings.register_profile(
    "conjoin",
    deadline=None,
    max_examples=40,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("conjoin")

os.environ["CONJOIN_QUIET"] = "1"  # lines that depend on how long a command takes


def _folder(variable: str) -> Path:
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"the folder that {variable} names is not given")
    path = Path(value)
    if not path.is_dir():
        pytest.skip(f"{variable}={value} is not a folder")
    return path


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of data sets: debd/, tables/, uai/, bif/."""
    return _folder("CONJOIN_DATA")


@pytest.fixture(scope="session")
def libra() -> Path:
    """The folder of models that Libra wrote."""
    return _folder("CONJOIN_FIXTURES") / "libra"
