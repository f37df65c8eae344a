"""Handwritten digits, completed from their upper half.

Each of the 64 pixels of a small picture is a column. The model has never been told what to predict:
any pixels may be known, and it fills in the others.
"""

import numpy as np
from pictures import figure, save
from sklearn.datasets import load_digits

from conjoin import JointModel

pixels = (load_digits().data >= 8).astype(int)
train, test = pixels[:1600], pixels[1600:1606]
model = JointModel(effort="quick").fit(train)
half = test.astype(float)
half[:, 32:] = np.nan
filled = model.impute(half)
right = (filled[:, 32:] == test[:, 32:]).mean()
print(f"{right:.0%} of the hidden pixels are right")

picture, axes = figure(height=3.0, nrows=3, ncols=6)
for row, (images, title) in enumerate(((half, "known"), (filled, "completed"), (test, "true"))):
    for column, image in enumerate(images):
        shown = np.where(np.isnan(image), 0.25, image).reshape(8, 8)
        axes[row, column].imshow(shown, cmap="Blues", vmin=0, vmax=1)
        axes[row, column].set_xticks([])
        axes[row, column].set_yticks([])
    axes[row, 0].set_ylabel(title)
save(picture, __file__)
