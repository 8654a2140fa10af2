"""The hand-written policies: conventional memory, one share for all phases, equal memory for all classes."""

from dataclasses import replace

import pytest

from remem.action import Action, State
from remem.errors import InputError
from remem.policies.table import POLICIES

CIFAR = State(1, 10, 50, 0, 7000, 2000, 5000, tuple(range(2, 10)), splits=True)
NAMES = ["fixed-0.1", "fixed-0.2", "fixed-0.3", "fixed-0.4", "fixed-0.5", "fixed-0.6", "fixed-0.7", "fixed-0.8"]


def test_the_names_are_those_of_the_interface() -> None:
    learned = ["rmm", "rmm-cifar100", "rmm-codec", "rmm-glyphs", "rmm-mini-imagenet", "rmm-one-level"]
    learned += ["rmm-one-level-cifar100", "rmm-one-level-glyphs", "rmm-untrained", "rmm-without-finetuning"]
    assert list(POLICIES) == ["auto", *NAMES, "fixed-0.9", "proportional", "random", *learned, "static"]
    with pytest.raises(InputError, match="no policy named"):
        POLICIES["fixed-0.65"]


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "auto"])
def test_policies_know_their_name_and_are_no_oracles(name: str) -> None:
    policy = POLICIES[name].build()
    assert policy.name == name
    assert policy.oracle is False
    assert policy.provenance()["name"] == name
    assert policy.act(CIFAR) == policy.act(CIFAR)


@pytest.mark.parametrize(
    ("budget", "exemplars", "arriving", "old_total"),
    [
        (7000, 2000, 5000, 2000),  # the paper's N = 5
        (3000, 2000, 1000, 2000),  # N = 25: E is more than half of M, but the new data needs only 1000
        (3000, 2000, 2600, 1500),  # E is cut to half of M
        (7000, 2000, 9000, 2000),  # more new data than fits
        (7000, 2000, 300, 6700),  # little new data: all else stays with the old classes
        (101, 90, 500, 50),  # M / 2 in whole numbers
    ],
)
def test_static(budget: int, exemplars: int, arriving: int, old_total: int) -> None:
    state = replace(CIFAR, budget=budget, exemplars=exemplars, arriving=arriving)
    assert POLICIES["static"].build().act(state) == Action(old_total=old_total, level2_tenths=5)


def test_fixed_is_the_same_in_every_phase() -> None:
    policy = POLICIES["fixed-0.6"].build()
    for phase in (1, 2, 5):
        assert policy.act(replace(CIFAR, phase=phase, old_tenths=3)) == Action(old_tenths=6, level2_tenths=5)
    assert policy.provenance() == {"name": "fixed-0.6", "old_share": 0.6}


@pytest.mark.parametrize(
    ("budget", "old", "new", "old_total"),
    [
        (7000, 50, 10, 5833),  # 7000 * 50 / 60 = 5833.3
        (3000, 10, 10, 1500),
        (3000, 90, 10, 2700),
        (7, 1, 1, 4),  # 3.5 is rounded up
        (100, 1, 2, 33),
    ],
)
def test_proportional(budget: int, old: int, new: int, old_total: int) -> None:
    state = replace(CIFAR, budget=budget, old_classes=old, new_classes=new)
    assert POLICIES["proportional"].build().act(state) == Action(old_total=old_total, level2_tenths=5)
