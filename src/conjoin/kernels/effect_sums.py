"""Sums of the effects of the states of rows."""

from __future__ import annotations

from conjoin.kernels.kernel import compiled
from conjoin.kernels.layouts import Float3, Int1, Int2


@compiled
def add_effects(codes: Int2, columns: Int1, first: Int1, effects: Float3, out: Float3) -> None:
    """Add the effects of the states of some columns to the sums of each row; -1 adds nothing."""
    for z in range(len(out)):
        for r in range(len(codes)):
            total = out[z, r]
            for c in range(len(columns)):
                state = codes[r, columns[c]]
                if state >= 0:
                    added = effects[z, first[columns[c]] + state]
                    for k in range(len(added)):
                        total[k] += added[k]
