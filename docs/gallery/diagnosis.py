"""An expert's conditionals, and what to ask next.

A doctor knows how probable each finding is given the disease, but states no joint distribution.
Conjoin builds one from the conditionals, says where they disagree, and then chooses the questions
that tell most about the disease.
"""

from pictures import BLUE, GREY, figure, save

from conjoin import (
    DependencyNetwork,
    Domain,
    TableCPD,
    convert,
    inconsistency,
    marginals,
    next_questions,
)
from conjoin.models import RuleCPD

domain = Domain({
    "disease": ["none", "cold", "flu"],
    "fever": ["no", "mild", "high"],
    "cough": ["no", "yes"],
    "aches": ["no", "yes"],
    "season": ["summer", "winter"],
})  # fmt: skip
conditionals = DependencyNetwork(domain, [
    RuleCPD.of(domain, "disease", [
        ({"fever": "high", "aches": "yes"}, [0.04, 0.06, 0.90]),
        ({"fever": "mild"}, [0.30, 0.45, 0.25]),
        ({"cough": "yes", "season": "winter"}, [0.40, 0.50, 0.10]),
        ({"cough": "yes"}, [0.60, 0.37, 0.03]),
        ({}, [0.95, 0.04, 0.01]),
    ]),
    TableCPD.of(domain, "fever", ["disease"], {
        "none": [0.96, 0.03, 0.01], "cold": [0.55, 0.40, 0.05], "flu": [0.05, 0.25, 0.70]}),
    TableCPD.of(domain, "cough", ["disease"], {"none": 0.1, "cold": 0.75, "flu": 0.65}),
    TableCPD.of(domain, "aches", ["disease"], {"none": 0.08, "cold": 0.2, "flu": 0.85}),
    TableCPD.of(domain, "season", ["disease"], {"none": 0.45, "cold": 0.65, "flu": 0.85}),
])  # fmt: skip
print(inconsistency(conditionals))
model = convert(conditionals)

patient = {"season": "winter", "cough": "yes", "fever": "high", "aches": "yes"}  # asked one by one
known: dict[str, str] = {}
steps = [("nothing is known", marginals(model)["disease"])]
while len(known) < len(patient):
    best = next_questions(model, "disease", known)[0]
    known[best.name] = patient[best.name]
    print(f"ask for {best.name} ({best.information:.2f} bits): {patient[best.name]}")
    steps.append((f"{best.name}: {patient[best.name]}", marginals(model, known)["disease"]))

picture, axes = figure()
left = [0.0] * len(steps)
for state, colour in zip(domain["disease"].states, (GREY, "#9fa8da", BLUE), strict=True):
    width = [p[state] for _, p in steps]
    axes.barh(range(len(steps)), width, left=left, color=colour, label=state)
    left = [a + b for a, b in zip(left, width, strict=True)]
axes.set_yticks(range(len(steps)), [label for label, _ in steps])
axes.invert_yaxis()
axes.set_xlabel("probability")
axes.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
save(picture, __file__)
