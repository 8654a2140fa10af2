"""config.py: the section `learn`, what is refused, and the tasks and fidelity of every epoch."""

import pytest

from remem.errors import InputError
from remem.rl.config import compose_learning, read_learn_settings, read_stored_learn_settings, stored_form
from remem.rl.paths import TaskKey, task_key
from remem.rl.settings import LearnSettings


def test_layers_override_each_other_and_leave_the_run_alone() -> None:
    config = compose_learning(
        {"seed": 4, "learn": {"epochs": 3, "runs": 2}}, {"learn": {"runs": 5}}, {"learn": {"phases": [2, 5]}}
    )
    assert (config.target.seed, config.learn.epochs, config.learn.runs, config.learn.phases) == (4, 3, 5, (2, 5))
    assert config.on_source is config.target
    other = compose_learning({"data": {"root": "/x"}, "learn": {"source": "dataset:npz:a.npz"}})
    assert (other.on_source.data.name, other.on_source.data.root) == ("npz:a.npz", other.target.data.root)


def test_tasks_of_the_pool_take_turns_and_without_a_pool_every_epoch_has_new_ones() -> None:
    settings = LearnSettings(tasks=3, pool=4)
    assert [settings.tasks_of(epoch) for epoch in range(3)] == [[0, 1, 2], [3, 0, 1], [2, 3, 0]]
    assert LearnSettings(tasks=2, pool=0).tasks_of(5) == [10, 11]


def test_the_last_epochs_can_have_another_fidelity() -> None:
    settings = LearnSettings(epochs=2, finish_epochs=1, fidelity="features", finish_fidelity="short")
    assert [settings.fidelity_of(epoch) for epoch in range(settings.all_epochs)] == ["features", "features", "short"]
    assert LearnSettings(epochs=9, finish_epochs=2, crossval_fixed=True).all_epochs == 1


def test_stored_settings_of_earlier_trainings_mean_what_was_done_then() -> None:
    stored = LearnSettings().model_dump(mode="json")
    assert read_stored_learn_settings(stored).scale_finetune
    del stored["scale_finetune"]  # rates were not scaled before there was this setting
    earlier = read_stored_learn_settings(stored)
    assert not earlier.scale_finetune
    assert stored_form(earlier) == stored  # so that its rewards are still known as its own
    assert stored_form(LearnSettings()) == stored | {"scale_finetune": True}


def test_runs_share_their_task_unless_the_settings_forbid_it() -> None:
    learn = LearnSettings(epochs=2, finish_epochs=1, fidelity="features", finish_fidelity="short")
    assert task_key(learn, 3, 1, "1.0.2") == TaskKey(3, "features")
    assert task_key(learn, 3, 2, "2.0.2") == TaskKey(3, "short")
    alone = learn.model_copy(update={"share": False})
    assert task_key(alone, 3, 1, "1.0.2") == TaskKey(3, "features", "1.0.2")
    fresh = learn.model_copy(update={"fresh_init": True})
    assert task_key(fresh, 3, 1, "1.0.2") == TaskKey(3, "features", "1.0.2", fresh=True)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"epochs": 0}, r"learn.epochs: 0 given; input should be greater than or equal to 1"),
        ({"levels": 4}, r"learn.levels: 4 given; input should be 1, 2 or 3"),
        ({"epocs": 3}, r"learn.epocs: no such setting; there are lr_eta, "),
        ({"source": "phase1"}, r"source: 'phase1' given; expected phase0, target or dataset:NAME"),
        ({"source": "dataset:"}, r"source: 'dataset:' given"),
        ({"phases": [0]}, r"learn.phases: \[0\] given; expected whole numbers of at least 1"),
        ({"pool": 1, "phases": [2, 5]}, r"learn.pool: 1 given; expected a task for each of learn.phases"),
        ({"pool": 0, "crossval_fixed": True}, r"learn.pool: 0 given; expected at least 1"),
    ],
)
def test_mistakes_are_reported_in_one_line(tree: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_learn_settings(tree)
    assert "\n" not in str(caught.value)


BOUNDS: dict[str, tuple[list[float], list[float]]] = {  # allowed, refused
    **{"lr_eta": ([1e-9], [0.0]), "lr_phi": ([1e-9], [0.0]), "decay": ([0.0, 0.999], [-0.1, 1.0])},
    **{"entropy": ([0.0], [-0.1]), "epochs": ([1], [0]), "tasks": ([1], [0]), "runs": ([1], [0]), "pool": ([0], [-1])},
    **{"finish_epochs": ([0], [-1]), "short_share": ([1e-9, 1.0], [0.0, 1.1]), "features_steps": ([1], [0])},
    **{"hidden": ([1, 4096], [0, 4097]), "disk_gigabytes": ([0.0], [-0.1])},
}


@pytest.mark.parametrize("name", BOUNDS)
def test_numbers_are_allowed_up_to_their_bounds(name: str) -> None:
    allowed, refused = BOUNDS[name]
    for number in allowed:
        assert read_learn_settings({name: number}).model_dump()[name] == number
    for number in refused:
        with pytest.raises(InputError, match=rf"^learn\.{name}: {number} given; input should be (less|greater) than"):
            read_learn_settings({name: number})


def test_a_plain_value_instead_of_the_section_is_refused() -> None:
    with pytest.raises(InputError, match=r"learn: 5 given; expected settings such as learn.epochs=30"):
        compose_learning({"learn": 5})
