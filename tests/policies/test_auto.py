"""`auto`: which policy is nearest, by hand, and that a run says so."""

from dataclasses import dataclass

import pytest

from factories import blobs, ready
from remem.action import Action, State
from remem.cli.run import describe
from remem.policies.auto import Conditions, learned_on, nearest_policy
from remem.policies.table import FOR_AUTO, choose_policy
from remem.runs.run import run


@dataclass(frozen=True)
class Known:
    """A policy of which only the provenance matters."""

    data: str
    method: str
    phases: tuple[int, ...]
    finetuned: bool = True
    name: str = "known"
    oracle: bool = False

    def act(self, state: State) -> Action:
        return Action()

    def provenance(self) -> dict[str, object]:
        target = {"preset": "small", "net": {"name": "auto"}, "finetune": {"epochs": 20 if self.finetuned else 0}}
        source = {"data": self.data, "phases": list(self.phases)}
        return {"source": source, "method": {"name": self.method}, "settings": {"target": target}}


SHIPPED = {
    "few": Known("glyphs", "lwf", (5,)),
    "many": Known("glyphs", "lwf", (25,)),
    "general": Known("cifar100", "lucir", (5, 10, 25)),
    "other-method": Known("cifar100", "icarl", (5, 10, 25)),
    "not-finetuned": Known("cifar100", "podnet", (5,), finetuned=False),
}


@pytest.mark.parametrize(
    ("data", "method", "phases", "name"),
    [
        ("glyphs", "lwf", 5, "few"),
        ("glyphs", "lucir", 25, "many"),  # the data set before the method
        ("glyphs", "lwf", 10, "general"),  # the number of phases before the data set
        ("cifar100", "icarl", 5, "other-method"),
        ("folder:photos", "podnet", 11, "general"),  # ties go to the first
        ("folder:photos", "podnet", 100, "many"),
    ],
)
def test_the_nearest_policy(data: str, method: str, phases: int, name: str) -> None:
    choice = nearest_policy(Conditions(data, method, phases), SHIPPED)
    assert choice.name == name
    assert choice.reason.startswith(f"policy auto: {name}, learned on {SHIPPED[name].data} (")
    assert choice.reason.endswith(f"this run has {method}, N = {phases}")


def test_without_fine_tuning_the_policy_is_one_that_was_learned_without() -> None:
    choice = nearest_policy(Conditions("glyphs", "lwf", 25, finetuned=False), SHIPPED)
    assert choice.name == "not-finetuned"
    learned = "learned on cifar100 (another data set) for podnet, preset small, no balanced fine-tuning, N = 5"
    assert choice.reason == f"policy auto: not-finetuned, {learned}; this run has lwf, no balanced fine-tuning, N = 25"


def test_a_run_with_auto_is_one_with_the_chosen_policy_and_says_so() -> None:
    prepared = ready(blobs(), {"policy": "auto"})
    chosen = choose_policy(Conditions("blobs", "icarl", 2)).name
    assert chosen in FOR_AUTO
    assert prepared.config.policy == chosen
    assert [line for line in describe(prepared) if "policy auto: " in line]
    named = ready(blobs(), {"policy": chosen})
    assert not [line for line in describe(named) if "policy auto" in line]
    assert run(prepared).average_accuracy == run(named).average_accuracy


def test_a_learned_policy_says_what_it_was_learned_on() -> None:
    note = "policy rmm-glyphs: learned on glyphs (another data set) for lwf, preset small, N = 5"
    assert ready(blobs(), {"policy": "rmm-glyphs"}).notes == (
        f"{note}; this run has icarl, preset small, network mlp, N = 2",
    )
    paper = ready(blobs(), {"policy": "rmm-glyphs", "preset": "paper", "method": {"name": "lucir"}})
    assert paper.notes == (f"{note}; this run has lucir, preset paper, network mlp, N = 2",)
    (coded,) = ready(blobs(), {"policy": "rmm-glyphs@int8"}).notes
    assert coded.startswith(note.replace("policy rmm-glyphs", "policy rmm-glyphs@int8"))
    for policy in ("static", "fixed-0.6", "rmm-untrained", "random"):
        assert ready(blobs(), {"policy": policy}).notes == ()


def test_what_a_policy_was_learned_on_names_its_network() -> None:
    facts = {
        "source": {"data": "cifar100", "phases": [5, 10]},
        "method": {"name": "lucir"},
        "settings": {"target": {"preset": "paper", "net": {"name": "resnet32"}, "finetune": {"epochs": 20}}},
    }
    wanted = Conditions("cifar100", "icarl", 5)
    words = "learned on cifar100 (the same data set) for lucir, preset paper, network resnet32, N = 5, 10"
    assert learned_on(facts, wanted) == words
    assert learned_on({"source": None, "method": {}}, wanted) is None
    assert learned_on({"name": "mine"}, wanted) is None
