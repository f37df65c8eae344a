"""`conjoin demo`: the paper's worked examples, and a small table from start to end."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conjoin.data.domain import Domain
    from conjoin.data.table import Table
    from conjoin.models.dependency import DependencyNetwork
    from conjoin.models.markov import MarkovNetwork


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "demo",
        help="show the method on built-in examples",
        description="Show the method on the paper's worked examples and on a small generated table.",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the generated table (default 0)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.errors import ModelError

    if options.seed < 0:
        raise ModelError(f"--seed must not be negative, not {options.seed}")
    agreeing()
    contradicting()
    from_a_table(options.seed)


def agreeing() -> None:
    """Show two conditionals that agree become their joint (the paper's Section 4.1)."""
    from conjoin.conversion.dn2mn import convert
    from conjoin.data.domain import Domain
    from conjoin.models.cpd import TableCPD
    from conjoin.models.dependency import DependencyNetwork

    print("1. Two conditionals that agree (Lowd 2012, Section 4.1)\n")
    domain = Domain({"X1": ["T", "F"], "X2": ["T", "F"]})
    dn = DependencyNetwork(
        domain,
        [
            TableCPD.of(domain, "X1", ["X2"], {"T": [4 / 5, 1 / 5], "F": [2 / 5, 3 / 5]}),
            TableCPD.of(domain, "X2", ["X1"], {"T": [2 / 3, 1 / 3], "F": [1 / 4, 3 / 4]}),
        ],
    )
    _show_conditionals(dn)
    print("\n   have one joint distribution, found in closed form:\n")
    _show_joint(convert(dn))


def contradicting() -> None:
    """Show two conditionals that contradict each other (Section 5)."""
    from conjoin.conversion.dn2mn import convert
    from conjoin.conversion.inconsistencies import inconsistency
    from conjoin.data.domain import Domain
    from conjoin.models.cpd import TableCPD
    from conjoin.models.dependency import DependencyNetwork

    print("\n2. Two conditionals that contradict each other (Section 5)\n")
    domain = Domain({"X1": ["T", "F"], "X2": ["T", "F"]})
    dn = DependencyNetwork(
        domain,
        [
            TableCPD.of(domain, "X1", ["X2"], {"T": [4 / 5, 1 / 5], "F": [1 / 5, 4 / 5]}),
            TableCPD.of(domain, "X2", ["X1"], {"T": [1 / 5, 4 / 5], "F": [4 / 5, 1 / 5]}),
        ],
    )
    _show_conditionals(dn)
    found = inconsistency(dn).interactions[0]
    said = ", ".join(f"{name}'s says {value:+.2f}" for name, value in found.opinions.items())
    print(f"\n   no joint has both. They contest {' × '.join(found.variables)}: {said} nats.")
    print("   Averaged over all base instances and both orders, they cancel:\n")
    _show_joint(convert(dn))


def from_a_table(seed: int) -> None:
    """Show the whole way from a table to a joint distribution."""
    import numpy as np

    from conjoin.conversion.dn2mn import convert
    from conjoin.conversion.inconsistencies import inconsistency

    table = garden(seed)
    print(f"\n3. From a table to a joint distribution ({len(table)} generated mornings)\n")
    labels = [table.domain.decode(row) for row in table.codes[:4]]
    for name in table.domain.names:
        print(f"   {name:<10}" + "".join(f"{row[name]!s:<8}" for row in labels) + "...")
    dn = counted(
        table,
        {
            "sky": ["rain"],
            "rain": ["sky", "hose", "grass"],
            "hose": ["rain", "grass"],
            "grass": ["rain", "hose"],
        },
    )
    mn = convert(dn, table)
    print(f"\n   One conditional a variable, counted from the table: {dn!r}")
    print(f"   Converted, with the table's marginals as base:      {mn!r}")
    print(f"   The conditionals disagree by {inconsistency(dn, table).total:.2f} nats.\n")
    states = _all_states(table.domain)
    joint = np.exp(mn.log_potential(states))
    joint /= joint.sum()
    wet = states[:, table.domain.index("grass")] == table.domain["grass"].index("wet")
    rain = states[:, table.domain.index("rain")] == table.domain["rain"].index("yes")
    rows_wet = table.codes[:, table.domain.index("grass")] == table.domain["grass"].index("wet")
    rows_rain = table.codes[:, table.domain.index("rain")] == table.domain["rain"].index("yes")
    print(f"   P(rain)             {joint[rain].sum():.3f}   in the table {rows_rain.mean():.3f}")
    given = joint[rain & wet].sum() / joint[wet].sum()
    print(f"   P(rain | wet grass) {given:.3f}   in the table {rows_rain[rows_wet].mean():.3f}")


def garden(seed: int) -> Table:
    """Generate a table of mornings: did it rain, was the hose on, is the grass wet."""
    import numpy as np

    from conjoin.data.domain import Domain
    from conjoin.data.table import Table

    domain = Domain(
        {
            "sky": ["clear", "cloudy", "dark"],
            "rain": ["no", "yes"],
            "hose": ["off", "on"],
            "grass": ["dry", "wet"],
        }
    )
    rng = np.random.default_rng(seed)
    sky = rng.choice(3, 2000, p=[0.5, 0.3, 0.2])
    rain = rng.random(2000) < np.array([0.1, 0.4, 0.8])[sky]
    hose = rng.random(2000) < np.where(rain, 0.1, 0.4)
    grass = rng.random(2000) < np.where(rain | hose, 0.9, 0.15)
    return Table(domain, np.stack([sky, rain, hose, grass], axis=1).astype(np.int64))


def counted(table: Table, parents: dict[str, list[str]]) -> DependencyNetwork:
    """Return the conditional of every variable given some others, counted with add-one smoothing."""
    import numpy as np

    from conjoin.models.cpd import TableCPD
    from conjoin.models.dependency import DependencyNetwork

    domain = table.domain
    cpds = []
    for name, given in parents.items():
        scope = [domain.index(n) for n in (*given, name)]
        counts = np.ones(domain.cards[scope])
        np.add.at(counts, tuple(table.codes[:, scope].T.astype(np.intp)), 1)
        log_p = np.log(counts / counts.sum(axis=-1, keepdims=True))
        cpds.append(TableCPD(domain.cards, scope[-1], scope[:-1], log_p))
    return DependencyNetwork(domain, cpds)


def _all_states(domain: Domain) -> Any:
    from conjoin.data.table import joint_codes

    return joint_codes(domain.cards, range(len(domain)))


def _show_conditionals(dn: DependencyNetwork) -> None:
    for target, other in (("X1", "X2"), ("X2", "X1")):
        for state in ("T", "F"):
            p = dn.conditional(target, {target: "T", other: state})[0, 0]
            print(f"   P({target}=T | {other}={state}) = {p:.4f}")


def _show_joint(mn: MarkovNetwork) -> None:
    import numpy as np

    states = _all_states(mn.domain)
    p = np.exp(mn.log_potential(states))
    for row, value in zip(states, p / p.sum(), strict=True):
        named = ", ".join(f"{name}={state}" for name, state in mn.domain.decode(row).items())
        print(f"   P({named}) = {value:.4f}")
