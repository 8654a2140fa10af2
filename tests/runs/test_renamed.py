"""renamed.py: settings are read under their older names and written under the new ones."""

from typing import Any

import pytest

from remem.errors import InputError
from remem.rl.config import compose_learning
from remem.runs.config import compose, validate
from remem.runs.renamed import RENAMED, current_names
from remem.studies.grid import plan_study


@pytest.mark.parametrize(
    ("old", "method"),
    [(old, {"refine": "mnemonics", "inner": "mnemonics", "mixture": "lucir-aanets"}) for old in RENAMED],
)
def test_every_older_name_sets_the_present_setting(old: str, method: dict[str, str]) -> None:
    section, key = old.split(".")
    tree: dict[str, Any] = {section: {key: 0.125}}
    if section == "method":
        tree["method"]["name"] = method[key.partition("_")[0]]
    config = compose_learning(tree)
    present, new = (config.learn if section == "learn" else getattr(config.target, section)), RENAMED[old].split(".")[1]
    assert getattr(present, new) == 0.125
    dumped = present.model_dump()
    assert dumped[new] == 0.125
    assert key not in dumped


def test_both_names_in_one_place_are_an_error() -> None:
    for read in (compose, validate, current_names):
        with pytest.raises(InputError, match=r"train.rate: given together with train.lr"):
            read({"train": {"rate": 0.1, "lr": 0.2}})


def test_a_later_layer_wins_under_either_name() -> None:
    assert compose({"train": {"lr": 0.1}}, {"train": {"rate": 0.3}}).train.lr == 0.3
    assert compose({"train": {"rate": 0.1}}, {"train": {"lr": 0.3}}).train.lr == 0.3


def test_a_study_varies_settings_under_their_older_names() -> None:
    study = plan_study({"study": {"vary": {"train.rate": [0.1, 0.2]}}, "learn": {"rate_eta": 0.5}})
    assert [run.config.train.lr for run in study.runs] == [0.1, 0.2]
    assert "train.lr" in [axis.key for axis in study.axes]
    assert study.learn.lr_eta == 0.5


def test_the_given_tree_is_not_changed() -> None:
    tree = {"train": {"rate": 0.1}, "seed": 3}
    assert current_names(tree) == {"train": {"lr": 0.1}, "seed": 3}
    assert tree == {"train": {"rate": 0.1}, "seed": 3}
