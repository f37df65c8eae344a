"""Measurements with holes, filled in with their uncertainty.

The table has ten measurements of 442 people with diabetes (Efron and others, Annals of Statistics
32, 2004; it comes with scikit-learn). A fifth of the blood values are hidden. The model knows how
the measurements depend on each other, so it fills in a value for each person and says how sure it
is.
"""

import numpy as np
from pictures import BLUE, GREY, ORANGE, figure, save
from sklearn.datasets import load_diabetes

from conjoin import JointModel

frame = load_diabetes(as_frame=True, scaled=False).data
frame = frame.rename(columns={"s1": "cholesterol", "s2": "ldl", "s3": "hdl", "s5": "triglycerides"})
rng = np.random.default_rng(0)
hidden = rng.random(len(frame)) < 0.2
holes = frame.assign(ldl=frame["ldl"].where(~hidden))
model = JointModel().fit(holes)

true = frame["ldl"][hidden].to_numpy()
filled = model.impute(holes)["ldl"][hidden].to_numpy()
low, high = model.interval(holes[hidden], 0.9, target="ldl").T
mean = holes["ldl"].mean()
print(f"error of the filled-in values: {np.sqrt(np.mean((filled - true) ** 2)):.1f}")
print(f"error of the column's mean: {np.sqrt(np.mean((mean - true) ** 2)):.1f}")
print(f"true values within the 90% intervals: {np.mean((low <= true) & (true <= high)):.0%}")

picture, axes = figure(height=3.6)
order = np.argsort(filled)
place = np.arange(len(order))
axes.vlines(place, low[order], high[order], color="#c5cae9", lw=3, label="90% interval")
axes.scatter(place, filled[order], s=10, color=BLUE, label="filled in", zorder=2)
axes.scatter(place, true[order], s=10, color=ORANGE, label="true", zorder=3)
axes.axhline(mean, color=GREY, lw=1, label="mean of the column")
axes.set_xlabel("people whose value was hidden, by the filled-in value")
axes.set_ylabel("LDL cholesterol (mg/dl)")
axes.legend(frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
save(picture, __file__)
