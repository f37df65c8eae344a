"""Simpson's paradox: which treatment is better?

Kidney stones were treated in two ways (Charig and others, British Medical Journal 292, 1986). Open
surgery (A) succeeded less often than keyhole surgery (B) over all, and more often among small
stones and among large ones. A joint distribution answers both questions, and shows why they differ.
"""

from pictures import BLUE, ORANGE, figure, save

from conjoin import Domain, Table, marginals, probability
from conjoin.joint import learn_joint

COUNTS = {  # (treatment, size of the stone): (successes, patients)
    ("A", "small"): (81, 87),
    ("A", "large"): (192, 263),
    ("B", "small"): (234, 270),
    ("B", "large"): (55, 80),
}

domain = Domain({"treatment": ["A", "B"], "stone": ["small", "large"], "success": ["no", "yes"]})
rows = []
for (treatment, stone), (good, all_) in COUNTS.items():
    rows += [{"treatment": treatment, "stone": stone, "success": "yes"}] * good
    rows += [{"treatment": treatment, "stone": stone, "success": "no"}] * (all_ - good)
_, model = learn_joint(Table.from_rows(domain, rows))


def success(given):
    """Return the probability of success."""
    return float(probability(model, "success=yes", given))


groups = ["all patients", "small stones", "large stones"]
given = ["", ", stone=small", ", stone=large"]
chances = {t: [success(f"treatment={t}{more}") for more in given] for t in "AB"}
for group, a, b in zip(groups, *chances.values(), strict=True):
    print(f"{group}: A {a:.2f}, B {b:.2f}")
large = marginals(model, "treatment=A")["stone"]["large"]
print(f"{large:.0%} of the patients of A had large stones")

picture, axes = figure()
for shift, (name, values) in zip((-0.2, 0.2), chances.items(), strict=True):
    places = [k + shift for k in range(3)]
    bars = axes.bar(
        places, values, 0.38, label=f"treatment {name}", color=BLUE if name == "A" else ORANGE
    )
    axes.bar_label(bars, fmt="{:.0%}")
axes.set_xticks(range(3), groups)
axes.set_ylabel("probability of success")
axes.set_ylim(0, 1.05)
axes.legend(frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
save(picture, __file__)
