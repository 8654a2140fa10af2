"""policy_view.py, policy_text.py and policy_plot.py: probabilities and paths by hand, text line by line, figures."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from remem.policies.files import save_policy
from remem.policies.fixed import Fixed
from remem.policies.learned import Learned, untrained
from remem.policies.policy import Policy
from remem.policies.rmm import PolicySettings, TwoLevelPolicy
from remem.policies.table import resolve_policy
from remem.report.plots import COLOURS
from remem.report.policy_plot import draw_policy, policy_figure, policy_page
from remem.report.policy_text import PLAIN_BARS, policy_text, progress
from remem.report.policy_view import (
    CUSTOMARY,
    RATIOS,
    as_tree,
    changes,
    first_shares,
    first_splits,
    later_splits,
    network_of,
    path,
)


def biased() -> TwoLevelPolicy:
    """Biases alone, so no state matters: share 0.6 is three times, +0.1 twice, split 0.2 five times as probable."""
    network = TwoLevelPolicy(PolicySettings(hidden=4))
    weights = network.state_dict()  # shares its numbers with the network
    weights["eta_first.bias"][5] = math.log(3)
    weights["eta_change.bias"][2] = math.log(2)
    weights["phi.2.bias"][1] = math.log(5)
    return network


def test_probabilities_of_known_weights() -> None:
    network = biased()
    first = [3 / 11 if place == 5 else 1 / 11 for place in range(9)]
    assert first_shares(network) == pytest.approx(np.array([first] * 5), abs=1e-6)
    later = changes(network)
    assert later.shape == (5, 9, 3)
    assert later[0, 0] == pytest.approx([0, 1 / 3, 2 / 3], abs=1e-6)  # 0.0 is no share
    assert later[2, 4] == pytest.approx([1 / 4, 1 / 4, 1 / 2], abs=1e-6)
    assert later[4, 8] == pytest.approx([1 / 2, 1 / 2, 0], abs=1e-6)  # nor is 1.0
    split = [5 / 13 if place == 1 else 1 / 13 for place in range(9)]
    assert first_splits(network) == pytest.approx(np.array([split] * 9), abs=1e-6)
    splits = later_splits(network)
    assert splits[1, 0] == pytest.approx(split, abs=1e-6)
    assert [(np.isnan(splits[0, 0]).all(), np.isnan(splits[2, 8]).all())] == [(True, True)]
    assert np.isnan(splits).sum() == 18


def test_probabilities_depend_on_the_inputs_of_the_networks() -> None:
    """The ratio is the first input, the old share the second, the action of level 1 the third."""
    network = TwoLevelPolicy(PolicySettings(hidden=1))
    weights = network.state_dict()
    for value in weights.values():
        value.zero_()
    weights["eta.0.weight"][0] = torch.tensor([1.0, 10.0])
    weights["eta_first.weight"][8] = weights["eta_change.weight"][0] = 1.0
    weights["phi.0.weight"][0] = torch.tensor([0.0, 1.0, 10.0])
    weights["phi.2.weight"][0] = 1.0
    best = [math.exp(math.tanh(ratio)) for ratio in RATIOS]
    assert first_shares(network)[:, 8] == pytest.approx([odds / (odds + 8) for odds in best], abs=1e-6)
    odds = math.exp(math.tanh(0.2 + 10 * 0.5))
    assert changes(network)[3, 4, 0] == pytest.approx(odds / (odds + 2), abs=1e-6)
    odds = math.exp(math.tanh(0.4 + 10 * 0.1))
    assert later_splits(network)[2, 3, 0] == pytest.approx(odds / (odds + 8), abs=1e-6)
    odds = math.exp(math.tanh(10 * 0.7))
    assert first_splits(network)[6, 0] == pytest.approx(odds / (odds + 8), abs=1e-6)


def test_paths_of_hand_written_policies() -> None:
    static = path(resolve_policy("static", 0), 5, 7000)
    assert [d.old_total for d in static] == [2000] * 5  # E beside 5000 new samples
    assert [d.old_total for d in path(resolve_policy("static", 0), 25, 3000)] == [2000] * 25
    assert [(d.old_total, d.clamped) for d in path(Fixed(6), 10, 4500)] == [(2700, False)] * 10
    # 1000 new samples and 3000 in all: below 0.6 a whole step would stay empty
    assert [(d.old_share, d.clamped) for d in path(Fixed(5), 25, 3000)] == [(0.6, True)] * 25


def test_a_path_changes_by_a_tenth_at_a_time() -> None:
    shares = [d.old_tenths for d in path(untrained("x"), 5, 7000)]
    assert shares == [5] * 5
    eager = TwoLevelPolicy()
    weights = eager.state_dict()
    weights["eta_first.bias"][4] = weights["eta_change.bias"][2] = weights["phi.2.bias"][8] = 1.0
    tree = as_tree(Learned(eager, untrained("x").facts))
    steps = tree["paths"][0]["steps"]
    assert [step["old_share"] for step in steps] == [0.5, 0.6, 0.7, 0.8, 0.9]
    assert [step["level1"] for step in steps] == [0.5, 0.1, 0.1, 0.1, 0.1]
    assert {step["level2"] for step in steps} == {0.9}


@pytest.fixture
def learned(tmp_path: Path) -> Policy:
    source = {"kind": "target", "data": "glyphs", "classes": [f"<{n}>" for n in range(9)], "order": "seed:0"}
    provenance = {
        "name": "upper <b>",
        "oracle": True,
        "source": {**source, "phases": [5, 10], "budget": 2000},
        "method": {"name": "lucir"},
        "settings": {"fidelity": "short", "reinforce": {"entropy": 0.0}},
        "seed": 4,
        "rewards": [2.0, 2.25, 2.5],
    }
    save_policy(tmp_path / "learned", biased(), provenance)
    return resolve_policy(str(tmp_path / "learned"), 0)


def test_the_text_has_provenance_probabilities_and_paths(learned: Policy) -> None:
    text = policy_text(learned)
    for line in (
        "policy      upper <b> (oracle: it saw what no honest policy may see)",
        "kind        two levels, 4 hidden units",
        "learned on  the target itself, glyphs",
        "classes     9: <0>, <1>, <2>, <3>, <4>, <5>, ...",
        "scenario    order seed:0, phases [5, 10], budget 2000",
        "method      name lucir",
        "settings    fidelity short, reinforce.entropy 0.0",
        "rewards     2.000 in the first of 3 epochs, 2.500 in the last",
        "  0.1      ▁  9  ▁  9  ▁  9  ▁  9  ▁  9  ▂ 27  ▁  9  ▁  9  ▁  9",
        "  0.2      ·▃▅  ▂▂▄  ▂▂▄  ▂▂▄  ▂▂▄  ▂▂▄  ▂▂▄  ▂▂▄  ▄▄·",
        "  later, changed by -0.1    -          ▁▃▁▁▁▁▁▁▁  ▁▃▁▁▁▁▁▁▁  ▁▃▁▁▁▁▁▁▁  ▁▃▁▁▁▁▁▁▁",
        "  N = 5   M = 7000  old share     6 7 8 9 9",
        "                    harder half   2 2 2 2 2",
    ):
        assert line in text.splitlines()
    assert max(len(line) for line in text.splitlines()) <= 100
    assert policy_text(learned, PLAIN_BARS).isascii()


@pytest.mark.parametrize(
    ("learn", "line"),
    [
        ({}, "1.000 in the first of 5 epochs, 7.000 in the last"),
        ({"pool": 0, "tasks": 2}, "1.000 in the first of 5 epochs, 7.000 in the last"),
        # Tasks 0 and 1 have higher rewards than 2 and 3, so that epochs are compared two by two.
        ({"pool": 4, "tasks": 2}, "2.500 in the first 2 of 5 epochs, 6.500 in the last 2"),
        ({"pool": 4, "tasks": 3}, "3.500 in the first 4 of 5 epochs, 5.000 in the last 4"),
        ({"pool": 9, "tasks": 1}, "4.200 in the first 5 of 5 epochs, 4.200 in the last 5"),
    ],
)
def test_rewards_of_the_same_tasks_are_compared(learn: dict[str, int], line: str) -> None:
    assert progress([1.0, 4.0, 3.0, 6.0, 7.0], learn) == line


def test_policies_without_probabilities_show_only_their_paths() -> None:
    text = policy_text(resolve_policy("fixed-0.5", 0))
    assert "Level" not in text
    assert "old share   0.5" in text
    assert "6!6!6!" in text  # N = 25: 0.5 is not feasible
    assert network_of(Fixed(3)) is None
    assert as_tree(Fixed(3)).keys() == {"provenance", "oracle", "paths"}
    assert "Level 2" not in policy_text(untrained("x", levels=1))
    assert "A sampled path" in policy_text(resolve_policy("random", 0))


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path) -> None:
    source: dict[str, Any] = {
        "kind": "dataset",
        "data": "a\x1b[2Jb",
        "classes": [],
        "order": None,
        "phases": [],
        "budget": None,
    }
    facts = {"name": "x", "oracle": False, "source": source, "method": {}, "settings": {}, "seed": 0, "rewards": []}
    save_policy(tmp_path, Fixed(4), facts)
    text = policy_text(resolve_policy(f"{tmp_path}/", 0))
    assert "\x1b" not in text
    assert "another data set, a?[2Jb" in text


def test_figures_are_written_in_every_format(learned: Policy, tmp_path: Path) -> None:
    for name, start in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("deep/a.html", b"<!doctype html>")):
        draw_policy(learned, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    assert b"Date" not in (tmp_path / "a.svg").read_bytes()


def test_the_page_is_self_contained(learned: Policy) -> None:
    text = policy_page(learned)
    for word in ("http", "<script", "<link", "<img", "src=", "<b>"):
        assert word not in text
    assert "upper &lt;b&gt; (oracle" in text
    assert text.count("<svg") == 1
    assert text == policy_page(learned)
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(("name", "rows"), [("static", 1), ("rmm-one-level", 3), ("rmm-untrained", 4)])
def test_a_row_for_every_level_and_one_for_the_paths(name: str, rows: int) -> None:
    figure = policy_figure(resolve_policy(name, 0))
    assert len(figure.subfigs) == rows
    lines = figure.subfigs[-1].axes[0].lines
    assert [len(line.get_xdata()) for line in lines] == list(CUSTOMARY)  # type: ignore[arg-type]
    assert [line.get_color() for line in lines] == list(COLOURS[:3])
    assert all(line.get_xdata()[-1] == 100 for line in lines)  # type: ignore[index]
