"""The test log-likelihood of the default networks, next to a tree and to published figures.

    CONJOIN_DATA=FOLDER python benchmarks/bench_likelihood.py [--seeds N] [NAME ...]

FOLDER holds the data sets of debd. Networks are learned from the training rows, choices are made on the
validation rows, and the test rows are scored once. Printed is a Markdown table: means of all seeds, and
the difference between the best and the worst of them.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from conjoin.inference import forecast
from conjoin.joint import learn_joint, tree_network
from conjoin.research.reproduction import Files, find_folder
from conjoin.scoring import log_likelihood, pll

PUBLISHED = {
    "nltcs": (-6.02, -6.00), "msnbc": (-6.04, -6.06), "kdd": (-2.13, -2.18),
    "plants": (-12.54, -14.26), "baudio": (-39.79, -39.77), "jester": (-52.86, -52.46),
    "bnetflix": (-56.36, -56.28), "dna": (-81.21, -79.06), "msweb": (-9.73, -9.99),
    "book": (-34.14, -33.83), "cwebkb": (-151.84, -152.77), "cr52": (-83.35, -86.26),
    "c20ng": (-151.47, -153.40), "bbc": (-248.93, -251.05),
}  # fmt: skip
"""Published test log-likelihoods: ID-SPN (Rooshenas and Lowd, 2014), and HCLT (Liu and Van den Broeck,
2021; the mean of five runs that the authors logged)."""


def row(name: str, seeds: int) -> str:
    """Learn from a data set once per seed, and return its row of the table."""
    files = Files(name, find_folder(None))
    train, valid, test = files.train, files.valid, files.test
    tree = log_likelihood(tree_network(train), test).mean
    scores, conditionals, seconds = [], [], []
    for seed in range(seeds):
        started = time.process_time()
        _, joint = learn_joint(train, valid=valid, random_state=seed)
        seconds.append(time.process_time() - started)
        scores.append(log_likelihood(joint, test).mean)
        conditionals.append(pll(joint, test).mean)
    published = [f"{value:.2f}" for value in PUBLISHED[name]]
    hidden = int(joint.domain.cards[joint.domain.hidden].prod()) if joint.domain.hidden.any() else 0
    cells = [
        name, f"{tree:.2f}", *published, f"**{np.mean(scores):.2f}**", f"{np.ptp(scores):.2f}",
        f"{np.mean(conditionals):.2f}", f"{np.mean(seconds):.0f}", f"{hidden}",
        f"{forecast(joint).bytes // 8:,}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(PUBLISHED))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    head = "data set, tree, ID-SPN, HCLT, Conjoin, spread, its PLL, CPU s, hidden states, cells"
    print("| " + head.replace(", ", " | ") + " |\n" + "|---" * len(head.split(", ")) + "|")
    for name in options.names:
        print(row(name, options.seeds), flush=True)
