"""Edge cases of the loop: divergence, a single sample, and optimisers that cannot train."""

from typing import Any

import pytest

import factories
from remem.errors import InputError
from remem.methods.loop import check_optimizer, optimizer_class
from remem.methods.settings import TrainSettings


def test_divergence_is_one_line_that_names_the_learning_rate() -> None:
    prepared = factories.ready(factories.blobs(), {"train": {"lr": 1e30}})
    with pytest.raises(InputError, match=r"train.lr: training diverged in phase 0, stage main, epoch \d; .* 1e\+30"):
        factories.play(factories.opened(prepared), prepared)


def test_a_phase_of_one_sample_trains() -> None:
    lone = {"scenario": {"phases": 1, "base_classes": 1}, "memory": {"budget": 2, "exemplars": 1}}
    prepared = factories.ready(factories.blobs(classes=2, per_class=1), lone)
    results = factories.play(factories.opened(prepared), prepared)
    assert [result.held_old + result.held_new for result in results] == [1, 2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": "adam", "options": {"foo": 1}}, "train.optimizer: 'adam' with options {'foo': 1}"),
        ({"optimizer": "lbfgs"}, "train.optimizer: 'lbfgs' with options {} cannot train"),
        ({"optimizer": "sparseadam"}, "train.optimizer: 'sparseadam' with options {} cannot train"),
        ({"optimizer": "adm"}, "train.optimizer: 'adm' given, expected one of"),
        ({"optimizer": "sgd", "options": {"foo": 1}}, "train.options: {'foo': 1} given; sgd takes"),
    ],
)
def test_optimisers_are_tried_before_training(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        check_optimizer(TrainSettings.model_validate(settings))
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_names_of_optimisers_ignore_case() -> None:
    assert optimizer_class("AdamW") is optimizer_class("adamw")
    check_optimizer(TrainSettings(optimizer="AdamW"))
    check_optimizer(TrainSettings(optimizer="SGD"))
