"""Settings of methods and training: the documented defaults, and the limits at and just beyond their ends."""

from typing import Any

import pytest
from pydantic import ValidationError

from remem.methods.finetune import FinetuneMethodSettings
from remem.methods.icarl import IcarlSettings
from remem.methods.joint import JointSettings
from remem.methods.lucir import LucirSettings
from remem.methods.lwf import LwfSettings
from remem.methods.method import Method
from remem.methods.mnemonics import MnemonicsSettings
from remem.methods.podnet import PodnetSettings
from remem.methods.settings import FinetuneSettings, MethodSettings, TrainSettings
from remem.methods.table import METHODS
from remem.settings import Settings

LUCIR = {"less_forget": 5.0, "margin": 0.5, "top": 2, "scale": 1.0, "freeze_old": True}  # as published for CIFAR-100
Limits = tuple[type[Settings], str, tuple[Any, ...], tuple[Any, ...]]  # what is allowed and what is refused
METHOD_DEFAULTS: list[tuple[type[MethodSettings], dict[str, Any]]] = [
    (FinetuneMethodSettings, {"name": "finetune", "replay": True}),
    (JointSettings, {"name": "joint"}),
    (IcarlSettings, {"name": "icarl", "loss": "softmax", "temperature": 2.0, "weight": 1.0, "head": "linear"}),
    (LwfSettings, {"name": "lwf", "replay": True, "temperature": 2.0, "weight": None, "head": "linear"}),
    (LucirSettings, {"name": "lucir", **LUCIR}),
    (
        MnemonicsSettings,
        {
            **{"name": "mnemonics", **LUCIR, "transfer": False, "refine_steps": 5, "refine_lr": 0.003},
            **{"refine_batch": 128, "inner_lr": 0.05, "inner_steps": 2},
        },
    ),
    (
        PodnetSettings,
        {
            **{"name": "podnet", "spatial": 3.0, "flat": 1.0, "proxies": 10},
            **{"nca": "shipped", "margin": 0.6, "clamp": 5.0},
        },
    ),
]
TRAIN_DEFAULTS: dict[str, Any] = {
    **{"epochs": 15, "epochs_later": None, "batch_size": 128, "optimizer": "sgd", "options": {}},
    **{"lr": 0.2, "lr_later": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 5e-4},
    **{"schedule": "one-cycle", "warmup": 0.2, "milestones": (0.5, 0.75), "decay": 0.1},
    **{"device": "auto", "devices": 1, "strategy": "auto", "precision": "auto", "threads": 1},
    "checkpoint_minutes": 10.0,
}
TINY = 1e-6
ALMOST_ONE = 1 - 1e-6
METHOD_LIMITS: list[Limits] = [
    (IcarlSettings, "temperature", (TINY,), (0,)),
    (IcarlSettings, "weight", (0,), (-TINY,)),
    (LwfSettings, "temperature", (TINY,), (0,)),
    (LwfSettings, "weight", (0, None), (-TINY,)),
    (LucirSettings, "less_forget", (0,), (-TINY,)),
    (LucirSettings, "margin", (0,), (-TINY,)),
    (LucirSettings, "top", (1,), (0,)),
    (LucirSettings, "scale", (TINY,), (0,)),
    (MnemonicsSettings, "refine_steps", (0,), (-1,)),
    (MnemonicsSettings, "refine_lr", (0,), (-TINY,)),
    (MnemonicsSettings, "refine_batch", (1,), (0,)),
    (MnemonicsSettings, "inner_lr", (0,), (-TINY,)),
    (MnemonicsSettings, "inner_steps", (1,), (0,)),
    (PodnetSettings, "spatial", (0,), (-TINY,)),
    (PodnetSettings, "flat", (0,), (-TINY,)),
    (PodnetSettings, "proxies", (1,), (0,)),
    (PodnetSettings, "margin", (0,), (-TINY,)),
    (PodnetSettings, "clamp", (TINY,), (0,)),
]
TRAIN_LIMITS: list[Limits] = [
    (TrainSettings, "epochs", (1,), (0,)),
    (TrainSettings, "epochs_later", (1, None), (0,)),
    (TrainSettings, "batch_size", (2,), (1,)),
    (TrainSettings, "checkpoint_minutes", (0,), (-TINY,)),
    (TrainSettings, "lr", (TINY,), (0,)),
    (TrainSettings, "lr_later", (TINY,), (0,)),
    (TrainSettings, "momentum", (0, ALMOST_ONE), (-TINY, 1)),
    (TrainSettings, "weight_decay", (0,), (-TINY,)),
    (TrainSettings, "warmup", (0, ALMOST_ONE), (-TINY, 1)),
    (TrainSettings, "milestones", ((), (TINY, ALMOST_ONE)), ((0,), (1,))),
    (TrainSettings, "decay", (TINY, 1), (0, 1 + TINY)),
    (TrainSettings, "devices", (1,), (0,)),
    (TrainSettings, "threads", (0, 1024), (-1, 1025)),
    (FinetuneSettings, "epochs", (0,), (-1,)),
    (FinetuneSettings, "lr_factor", (TINY,), (0,)),
]


def built(settings: Settings) -> Method:
    assert isinstance(settings, MethodSettings)
    return METHODS[settings.name].build(settings)


def check_limits(section: type[Settings], name: str, allowed: tuple[Any, ...], refused: tuple[Any, ...]) -> None:
    for value in allowed:
        assert getattr(section.model_validate({name: value}), name) == value
    for value in refused:
        with pytest.raises(ValidationError, match=name):
            section.model_validate({name: value})


@pytest.mark.parametrize(("section", "expected"), METHOD_DEFAULTS, ids=[name["name"] for _, name in METHOD_DEFAULTS])
def test_defaults_of_methods(section: type[MethodSettings], expected: dict[str, Any]) -> None:
    """As on the pages of the methods; a changed default would change runs."""
    assert section().model_dump() == expected
    assert type(built(section())).__module__ == section.__module__


@pytest.mark.parametrize(("section", "name", "allowed", "refused"), METHOD_LIMITS)
def test_limits_of_methods(
    section: type[Settings], name: str, allowed: tuple[Any, ...], refused: tuple[Any, ...]
) -> None:
    """What is allowed gives a method."""
    check_limits(section, name, allowed, refused)
    for value in allowed:
        assert type(built(section.model_validate({name: value}))).__module__ == section.__module__


def test_defaults_of_training() -> None:
    """As in docs/reference/settings.md."""
    assert MethodSettings().name == "icarl"
    assert FinetuneSettings().model_dump() == {"epochs": 20, "lr_factor": 0.1, "schedule": "constant"}
    assert TrainSettings().model_dump() == TRAIN_DEFAULTS
    assert TrainSettings().epochs_of(3) == 15


def test_limits_of_training() -> None:
    for limits in TRAIN_LIMITS:
        check_limits(*limits)
    assert TrainSettings(epochs=1, epochs_later=1).epochs_of(1) == 1


@pytest.mark.parametrize("name", ["icarl", "lucir", "podnet"])
def test_two_branches_add_one_setting_to_the_method(name: str) -> None:
    wrapped = f"{'pod' if name == 'podnet' else name}-aanets"
    entry, inner = METHODS[wrapped], METHODS[name]
    expected = {**inner.settings().model_dump(), "name": wrapped, "mixture_lr": 0.0}
    assert entry.settings().model_dump() == expected
    assert entry.core == name
    assert type(built(entry.settings.model_validate({"mixture_lr": 0}))).__name__ == "AANets"
    with pytest.raises(ValidationError, match="mixture_lr"):
        entry.settings.model_validate({"mixture_lr": -TINY})


def test_epochs_of_a_phase() -> None:
    assert [TrainSettings(epochs=5).epochs_of(phase) for phase in (0, 1, 2)] == [5, 5, 5]
    assert [TrainSettings(epochs=5, epochs_later=3).epochs_of(phase) for phase in (0, 1, 2)] == [5, 3, 3]
