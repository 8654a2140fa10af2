"""Streams: updates as phases, classes that return, budgets that change, and updates that fail."""

from typing import Any

import numpy as np
import pytest

import remem
from factories import blobs
from remem.errors import InputError
from remem.estimator.episode import RECORD_BYTES
from remem.estimator.saved import digest_of
from remem.estimator.stream import Stream
from remem.runs.build import prepare
from remem.runs.config import compose
from stream_factories import IMAGES, X, config, digits, three_updates, y

EXEMPLAR_METHODS = ["icarl", "lucir", "podnet", "mnemonics", "icarl-aanets", "lucir-aanets", "pod-aanets", "lwf"]


@pytest.mark.parametrize("policy", ["fixed-0.6", "rmm-one-level", "proportional"])
@pytest.mark.parametrize("method", ["icarl", "lucir-aanets"])
def test_a_stream_equals_a_run_on_the_same_phases(method: str, policy: str) -> None:
    """Bit for bit: the cut at the end of phase 0 keeps the best ranked samples, which the next phase cuts further."""
    from remem.data.scenario import build_scenario
    from remem.runs.build import open_episode
    from remem.runs.devices import open_fabric
    from remem.runs.run import phases

    data, own = blobs(), config(method, 60, policy=policy, net={"name": "mlp", "hidden": [16], "width": 8})
    tree = own.model_dump() | {"scenario": {"phases": 2, "base_classes": 2, "order": "natural"}}
    settings = compose(tree | {"data": {"name": "blobs"}})
    prepared = prepare(settings, scenario=build_scenario(data, settings.scenario))
    episode = open_episode(prepared, open_fabric(prepared.config.train), lambda _: None)
    stream = Stream(own)
    values, labels = data.train.read(np.arange(len(data.train.labels))), data.train.labels
    for phase, result in zip(prepared.scenario.phases, phases(episode, prepared, lambda _: None), strict=True):
        arriving = np.isin(labels, phase.classes)
        stream.update(values[arriving], labels[arriving])
        test = prepared.scenario.eval_bank.read(
            np.concatenate([past.eval_samples.rows for past in prepared.scenario.phases[: phase.index + 1]])
        )
        predicted = stream.model().predict(test)
        own_head = result.predictions.nme if method == "icarl" else result.predictions.cnn
        assert own_head is not None
        if phase.index:  # after phase 0 a run holds all of its data, and the means are of all of them
            assert {row.label: row.samples for row in stream.memory()} == dict(result.held_per_class)
            np.testing.assert_array_equal(predicted.classes, own_head)
    for name, weight in episode.learner.state().items():
        assert weight.equal(stream.episode.learner.state()[name]), name


@pytest.mark.parametrize("method", EXEMPLAR_METHODS)
def test_classes_return_and_single_samples_arrive(method: str) -> None:
    stream = three_updates(method)
    one, label = digits(7, most=1)
    report = stream.update(one, label)
    assert (report.samples, report.new_classes, report.known_classes) == (1, (), (7,))
    assert stream.classes == tuple(range(8))
    rows = {row.label: row for row in stream.memory()}
    assert stream.memory().total_samples == 200
    assert rows[2].since == (1, 3)
    assert rows[7].since == (2, 4)
    accuracy = np.mean(stream.model().predict(X[y < 8]).classes == y[y < 8])
    assert accuracy > 0.5  # chance is 0.125


def test_returning_samples_are_ranked_with_those_that_are_held() -> None:
    """Protocol 7: after training the class is ranked anew over all that it then holds."""
    stream = three_updates()
    before = stream.held(2)[1]
    stream.update(*digits(8))
    rows = stream.held(2)
    described = stream.episode.held().of([2])
    assert set(rows[1]) <= set(before)  # nothing comes back
    assert [record.update for record in map(stream.episode.records.get, described.rows.tolist()) if record] != sorted(
        record.update for record in map(stream.episode.records.get, described.rows.tolist()) if record
    )  # the new ones are not simply at the end


def test_the_first_update_is_cut_to_the_budget_at_its_end() -> None:
    stream = Stream(config(budget=100))
    report = stream.update(*digits(0, 1, 2, 3, 4))
    assert report.held == 100
    assert len(stream.episode.bank.owned()) == 100  # the rest is gone
    assert {row.half for row in stream.memory()} == {"harder", "easier"}


@pytest.mark.parametrize("codec", ["raw", "float16", "int8"])
def test_bytes_bound_what_is_held_after_every_update(codec: str) -> None:
    """Every sample costs its code and its record."""
    stream = Stream(config(budget="20kB", memory={"codec": codec}))
    for classes in ((0, 1, 2, 3), (4, 5), (4, 0), (6,), (7, 8, 9)):
        report = stream.update(*digits(*classes, most=60))
        assert report.held_bytes <= 20_000
        size = {"raw": 256, "float16": 128, "int8": 68}[codec] + RECORD_BYTES
        assert report.held_bytes == report.held * size


def test_codes_of_different_sizes_fit_a_budget_in_bytes() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (90, 32, 32, 3)).astype(np.uint8)
    images[:, 8:] //= 8
    labels = np.repeat(["cat", "dog", "owl"], 30)
    stream = Stream(config(budget="20kB", memory={"codec": "webp-75"}, net={"name": "small", "width": 4}))
    for wanted in (["cat", "dog"], ["owl", "cat"]):
        places = np.isin(labels, wanted)
        report = stream.update(images[places], labels[places])
        assert 10_000 < report.held_bytes <= 20_000


def test_a_three_level_policy_chooses_the_codec_of_a_stream() -> None:
    colours = np.repeat(np.repeat(np.repeat(IMAGES[:400, :, :, None], 2, axis=1), 2, axis=2), 3, axis=3)
    stream = Stream(config(budget="40kB", policy="rmm-codec", net={"name": "small", "width": 4}))
    for classes in ((0, 1, 2, 3), (4, 5), (4, 6)):
        places = np.isin(y[:400], classes)
        assert stream.update(colours[places], y[:400][places]).held_bytes <= 40_000


def test_images_of_another_size_are_resized_to_the_first() -> None:
    stream = Stream(config(net={"name": "small", "width": 4}))
    stream.update(IMAGES[:100], y[:100])
    larger = np.repeat(np.repeat(IMAGES[:100], 2, axis=1), 2, axis=2)
    stream.update(larger, y[:100])
    assert stream.shape == (8, 8, 1)


def test_labels_of_any_type_keep_their_type() -> None:
    names = np.array(["zero", "one", "two"])
    stream = Stream(config())
    values, labels = digits(0, 1, 2)
    stream.update(values, names[labels])
    assert stream.classes == ("one", "two", "zero")
    assert stream.place_of("two") == 1
    with pytest.raises(InputError, match="class: 'three' is not known; there are one, two, zero"):
        stream.place_of("three")


def test_set_budget_shrinks_by_the_rankings_and_grows() -> None:
    stream = three_updates()
    ranked = {label: stream.held(label)[1] for label in (0, 1, 3, 4)}
    stream.set_budget(80)
    assert stream.memory().total_samples == 80
    for label, before in ranked.items():
        after = stream.held(label)[1]
        assert after == before[: len(after)]
    stream.set_budget("30kB")
    assert stream.memory().total_bytes <= 30_000
    stream.set_budget(300)
    stream.update(*digits(8, 9))
    assert 80 < stream.memory().total_samples <= 300


def test_growing_budgets_keep_so_many_of_every_class() -> None:
    stream = Stream(config(budget="growing:7"))
    stream.update(*digits(0, 1, 2))
    assert [row.samples for row in stream.memory()] == [7, 7, 7]
    stream.update(*digits(3, most=9))
    assert [row.samples for row in stream.memory()] == [7, 7, 7, 9]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": [0]}, "y: 1 labels for 2 samples"),
        ({"labels": [[0], [1]]}, r"y: shape \(2, 1\)"),
        ({"labels": [0, None]}, "y: label None of type NoneType; expected strings or numbers"),
        ({"ids": ["a"]}, "ids: 1 given for 2 samples"),
        ({"values": np.zeros((2, 3), np.float32)}, r"X: samples of shape \(3,\); expected vectors of shape \(64,\)"),
        ({"values": np.full((2, 64), np.nan)}, "X: row 0 holds NaN"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(change: dict[str, Any], message: str) -> None:
    stream = three_updates()
    before = digest_of(stream)
    given: dict[str, Any] = {"values": X[:2], "labels": [0, 1]} | change
    with pytest.raises(InputError, match=message):
        stream.update(**given)
    assert digest_of(stream) == before


def test_an_update_that_fails_changes_nothing() -> None:
    """Whatever ends it: here a budget that is too small for the classes, and a stop by the user in the last epoch."""
    stream = three_updates(budget=9)
    before, classes = digest_of(stream), stream.classes
    with pytest.raises(InputError, match="budget: 9 samples are less than one for each of the 10 classes"):
        stream.update(*digits(8, 9))
    seen = []

    def stop(event: object) -> None:
        seen.append(event)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stream.update(*digits(8), emit=stop)
    assert (digest_of(stream), stream.classes, stream.updates) == (before, classes, 3)
    stream.update(*digits(8))
    assert stream.updates == 4


def test_a_first_update_that_fails_leaves_no_shape() -> None:
    stream = Stream(config(budget=3))
    with pytest.raises(InputError, match="budget: 3 samples are less than one for each of the 5 classes"):
        stream.update(*digits(0, 1, 2, 3, 4))
    stream.update(IMAGES[:20], np.zeros(20))
    assert stream.shape == (8, 8, 1)


@pytest.mark.parametrize(
    ("method", "kept"), [({"name": "joint"}, "all data"), ({"name": "lwf", "replay": False}, "no exemplars")]
)
def test_methods_without_a_budget_are_refused(method: dict[str, Any], kept: str) -> None:
    with pytest.raises(InputError, match=f"method: {method['name']} keeps {kept}; expected a method with exemplars"):
        Stream(compose({"method": method}))


def test_equal_calls_give_equal_streams() -> None:
    assert digest_of(three_updates("lucir")) == digest_of(three_updates("lucir"))
    assert digest_of(three_updates("lucir", seed=1)) != digest_of(three_updates("lucir"))


def test_remem_names_the_estimator() -> None:
    assert remem.IncrementalClassifier.__module__ == "remem.estimator.classifier"
