"""Typing errors, found by what the rest of the row says.

A register of 2,000 pets, made up. Twenty cells are then replaced by another value of the same
column, as if somebody had slipped. Each wrong value is an ordinary value of its column, so counting
does not find it; given the rest of the row, it is surprising.
"""

import numpy as np
from pictures import BLUE, GREY, figure, save

from conjoin import Domain, Table, surprises
from conjoin.joint import learn_joint

COLUMNS = ["animal", "sound", "home", "food", "size"]
PETS = {  # what each animal may have in the other columns
    "dog": [["bark"], ["house", "kennel"], ["meat", "biscuits"], ["medium", "large"]],
    "cat": [["meow"], ["house"], ["meat", "fish", "biscuits"], ["small", "medium"]],
    "parrot": [["speech", "song"], ["cage"], ["seeds", "fruit"], ["small"]],
    "hamster": [["squeak", "none"], ["cage"], ["seeds", "fruit"], ["tiny"]],
    "goldfish": [["none"], ["tank"], ["flakes"], ["tiny", "small"]],
}
rng = np.random.default_rng(0)
rows = []
for animal in rng.choice(list(PETS), 2000):
    rows.append([str(animal), *(str(rng.choice(values)) for values in PETS[animal])])
domain = Domain({name: sorted({row[k] for row in rows}) for k, name in enumerate(COLUMNS)})
clean = Table.from_rows(domain, [dict(zip(COLUMNS, row, strict=True)) for row in rows])

codes = clean.codes.copy()
wrong = set()
while len(wrong) < 20:
    r, c = int(rng.integers(len(codes))), int(rng.integers(5))
    codes[r, c] = (codes[r, c] + 1 + rng.integers(domain.cards[c] - 1)) % domain.cards[c]
    wrong.add((r, c))
table = Table(domain, codes)

_, model = learn_joint(table)
by_row = {}
for cell in surprises(model, table)[:200]:  # the most surprising ones first
    by_row.setdefault(cell.row, cell)
first = list(by_row.values())[:20]
planted = {row for row, _ in wrong}
hits = [cell.row in planted for cell in first]
print(f"of the 20 most surprising rows, {sum(hits)} have a planted error")
for cell in first[:3]:
    print(f"row {cell.row}, {cell.column}: {cell.value}? more likely {cell.suggestion}")

picture, axes = figure()
colours = [BLUE if hit else GREY for hit in hits]
axes.bar(range(20), [cell.surprise for cell in first], color=colours)
axes.set_xticks(range(20), [f"{cell.value}?" for cell in first], rotation=60, ha="right")
axes.set_ylabel("surprise (bits)")
axes.set_title("blue: the row has a planted error", fontsize=9)
save(picture, __file__)
