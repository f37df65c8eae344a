"""Kernels are compiled for few types of arguments."""

from __future__ import annotations

import subprocess
import sys

MANY_CALLS = """
import sys, numpy as np, conjoin
from numba.core.dispatcher import Dispatcher
from conjoin.scoring import cmll, log_likelihood
rng = np.random.default_rng(1)
hidden = rng.integers(0, 2, 300)
columns = [(hidden + rng.integers(0, 3, 300)) % card for card in (2, 2, 3, 4)]
codes = np.stack(columns, axis=1)
domain = conjoin.Domain(
    conjoin.Variable(f"v{i}", range(card)) for i, card in enumerate((2, 2, 3, 4))
)
table = conjoin.Table(domain, codes)
for cpd in ("tree", "logistic", "hybrid"):
    network = conjoin.convert(conjoin.learn_conditionals(table, cpd), table)
    conjoin.marginals(network, {"v0": 1})
    conjoin.marginals(network, {"v0": 1}, method="gibbs")
    conjoin.most_probable(network, {"v0": 1})
    conjoin.sample(network, 5)
    log_likelihood(network, table)
    cmll(network, table)
for name, module in list(sys.modules.items()):
    if name.startswith("conjoin.kernels."):
        for kernel in vars(module).values():
            if isinstance(kernel, Dispatcher) and kernel.__module__ == name:
                if kernel.targetoptions.get("nogil") and kernel.signatures:
                    plain = [s for s in kernel.signatures if "Literal" not in str(s)]
                    print(f"{name}.{kernel.__name__}", len(plain))
"""


def test_one_type_of_codes_means_one_compilation():
    """An array of another type, or a read-only one, would have a kernel compiled again."""
    done = subprocess.run(
        [sys.executable, "-c", MANY_CALLS], capture_output=True, text=True, check=True
    )
    counts = dict(line.split() for line in done.stdout.splitlines())
    assert len(counts) >= 20
    assert set(counts.values()) == {"1"}, counts
