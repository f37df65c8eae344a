"""Customers that nobody labelled: a hidden column.

Three thousand baskets of twenty products. There are four kinds of customers, but the table does not
say so; products go together because the same kind of customer buys them. The default model finds
this out: it adds a hidden column, which predicts new baskets better than links between products
alone.
"""

import numpy as np
from pictures import BLUE, ORANGE, figure, save

from conjoin import Domain, Table, learn_joint, marginals
from conjoin.scoring import log_likelihood

SHELVES = """apples bananas beer bread butter cereal cheese chocolate coffee eggs
             fish honey juice milk nuts pasta rice tea tofu wine"""
PRODUCTS = SHELVES.split()

rng = np.random.default_rng(0)
likes = rng.beta(0.5, 1.2, (4, 20))  # how often each kind buys each product
kinds = rng.integers(0, 4, 6000)
baskets = (rng.random((6000, 20)) < likes[kinds]).astype(int)
domain = Domain({name: [0, 1] for name in PRODUCTS})
train, test = Table(domain, baskets[:3000]), Table(domain, baskets[3000:])

_, quick = learn_joint(train, effort="quick")  # no hidden column
_, model = learn_joint(train)
hidden = [variable for variable in model.domain if variable.hidden]
print(f"hidden states: {len(hidden[0]) if hidden else 0}")
for name, network in (("links only", quick), ("with a hidden column", model)):
    print(f"{name}: {log_likelihood(network, test).mean:.2f} nats per basket")

known = {"apples": 1, "bananas": 1}
before, after = marginals(model), marginals(model, known)
names = [name for name in before if name not in known]
moved = sorted(names, key=lambda name: after[name][1] - before[name][1])
picture, axes = figure(height=3.6)
for place, name in enumerate(moved):
    a, b = before[name][1], after[name][1]
    axes.plot([a, b], [place, place], color="#d5d9e0", lw=4, solid_capstyle="round", zorder=1)
axes.scatter([before[n][1] for n in moved], range(len(moved)), color=BLUE, label="before", zorder=2)
label = f"given {' and '.join(known)}"
axes.scatter([after[n][1] for n in moved], range(len(moved)), color=ORANGE, label=label, zorder=2)
axes.set_yticks(range(len(moved)), moved)
axes.set_xlabel("probability that the product is in the basket")
axes.legend(frameon=False, loc="lower right")
save(picture, __file__)
