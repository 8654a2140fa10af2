"""The methods: their replay, readout and stages."""

import pytest
import torch

from remem.methods.finetune import FinetuneMethodSettings
from remem.methods.icarl import IcarlSettings
from remem.methods.joint import JointSettings
from remem.methods.lucir import LucirSettings
from remem.methods.lwf import LwfSettings
from remem.methods.method import Method, PhaseFacts
from remem.methods.podnet import PodnetSettings
from remem.methods.settings import FinetuneSettings, MethodSettings, TrainSettings
from remem.methods.table import METHODS
from remem.nets.network import Network, build_network
from remem.nets.settings import NetSettings
from remem.types import Samples

HELD = Samples(torch.arange(8).numpy(), torch.tensor([0, 0, 1, 1, 2, 2, 3, 3]).numpy())


def made(settings: MethodSettings) -> Method:
    return METHODS[settings.name].build(settings)


def network_for(method: Method) -> Network:
    network = build_network(NetSettings(name="mlp"), (4,), method.head, 0)
    network.head.grow(4, torch.Generator().manual_seed(0))
    return network


@pytest.mark.parametrize(
    ("settings", "replay", "readout", "restarts"),
    [
        (FinetuneMethodSettings(), "budget", "cnn", False),
        (FinetuneMethodSettings(replay=False), "none", "cnn", False),
        (LwfSettings(), "budget", "cnn", False),
        (LwfSettings(replay=False), "none", "cnn", False),
        (IcarlSettings(), "budget", "nme", False),
        (JointSettings(), "all", "cnn", True),
    ],
    ids=str,
)
def test_replay_and_readout(settings: MethodSettings, replay: str, readout: str, restarts: bool) -> None:
    method = made(settings)
    assert (method.replay, method.readout, method.restarts) == (replay, readout, restarts)
    assert method.head.name == "linear"


def test_settings_of_one_method_do_not_leak_into_another() -> None:
    made(FinetuneMethodSettings(replay=False))
    assert made(FinetuneMethodSettings()).replay == "budget"
    assert Method.replay == "budget"


def test_the_head_is_a_setting() -> None:
    assert made(IcarlSettings(head="cosine")).head.name == "cosine"
    assert made(LwfSettings(head="cosine")).head.name == "cosine"


def test_every_entry_is_complete() -> None:
    for name in METHODS:
        entry = METHODS[name]
        assert entry.settings().name == name
        assert entry.summary
        assert "\n" not in entry.summary
        assert entry.settings.model_config["extra"] == "forbid"
        assert isinstance(entry.build(entry.settings()), Method)


@pytest.mark.parametrize("settings", [FinetuneMethodSettings(), LwfSettings(), IcarlSettings()], ids=str)
def test_the_stages_of_a_phase(settings: MethodSettings) -> None:
    method = made(settings)
    network = network_for(method)
    train = TrainSettings(epochs=7, lr=0.4, lr_later=0.3, schedule="cosine")
    for index, lr in ((0, 0.4), (1, 0.3), (2, 0.3)):
        facts = PhaseFacts(index, old_classes=2 * index, new_classes=4 - 2 * min(index, 1))
        (main,) = method.stages(facts, network, HELD, train)
        assert (main.name, main.epochs, main.lr, main.schedule) == ("main", 7, lr, "cosine")
        assert main.needs_teacher == (index > 0 and settings.name != "finetune")
        assert main.updates_statistics
        assert main.samples is HELD
        trained = {id(parameter) for group in main.groups for parameter in group.parameters}
        assert trained == {id(parameter) for parameter in network.parameters()}


def test_balanced_fine_tuning_is_the_main_stage_at_a_tenth_of_its_learning_rate() -> None:
    method = made(IcarlSettings())
    network = network_for(method)
    (main,) = method.stages(PhaseFacts(1, 2, 2), network, HELD, TrainSettings(lr_later=0.3))
    few = Samples(HELD.rows[::2], HELD.labels[::2])
    stage = method.balanced(main, network, few, FinetuneSettings(epochs=3))
    assert stage.lr == pytest.approx(0.03)
    assert (stage.name, stage.epochs, stage.schedule) == ("balanced", 3, "constant")
    assert stage.samples is few
    assert stage.objective is main.objective
    assert stage.groups == main.groups
    assert stage.needs_teacher


def test_methods_share_phase_0_only_if_they_train_it_in_the_same_way() -> None:
    """Runs exchange networks of phase 0 between methods whose head, readout and `phase0` are equal."""
    entropy = [FinetuneMethodSettings(), JointSettings(), LwfSettings(), IcarlSettings(loss="softmax"), LucirSettings()]
    assert len({made(settings).phase0 for settings in entropy}) == 1
    assert made(LucirSettings(less_forget=9.0, margin=0.1, top=3)).phase0 == made(LucirSettings()).phase0
    others = [
        IcarlSettings(loss="sigmoid"),
        PodnetSettings(),
        PodnetSettings(nca="margin"),
        PodnetSettings(margin=0.7),
        PodnetSettings(clamp=4.0),
    ]
    assert len({made(settings).phase0 for settings in (*entropy, *others)}) == 1 + len(others)
    assert None not in {made(settings).phase0 for settings in (*entropy, *others)}
    assert made(PodnetSettings(spatial=8.0, flat=10.0)).phase0 == made(PodnetSettings()).phase0
