"""Deletion: nothing of a sample is left, receipts verify, and the rest predicts as before."""

from pathlib import Path

import numpy as np
import pytest

from remem.codecs.table import CODECS
from remem.errors import DamagedFileError, InputError
from remem.estimator.arrivals import sample_id
from remem.estimator.deletion import Receipt, forget
from remem.estimator.saved import digest_of, load_stream, save_stream
from remem.estimator.stream import Stream
from stream_factories import X, config, digits, three_updates, y


def accuracy(stream: Stream, *classes: int) -> float:
    values, labels = digits(*classes)
    found = np.array(stream.classes)[stream.model().predict(values).classes]
    return float(np.mean(found == labels))


def contents(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.mark.parametrize("codec", ["raw", "int8"])
@pytest.mark.parametrize("method", ["icarl", "lucir", "podnet", "lucir-aanets"])
def test_a_forgotten_class_leaves_no_byte_and_is_never_predicted(method: str, codec: str, tmp_path: Path) -> None:
    stream = three_updates(method, "20kB", memory={"codec": codec})
    gone, _ = stream.held(6)
    codes = CODECS[codec].encode(gone)
    before = stream.model().predict(X[y < 8]).probabilities
    receipt = forget(stream, classes=[6])
    save_stream(tmp_path, stream)
    assert receipt.classes == (6,)
    assert receipt.samples == len(gone)
    assert stream.classes == (0, 1, 2, 3, 4, 5, 7)
    stored = contents(tmp_path)
    for value, code in zip(gone, codes, strict=True):
        assert value.tobytes() not in stored
        assert code not in stored
    after = load_stream(tmp_path).model().predict(X[y < 8])
    assert after.probabilities.shape[1] == 7
    kept = np.delete(before, 6, axis=1)
    np.testing.assert_array_equal(after.classes, kept.argmax(axis=1))
    if method != "icarl":  # whose probabilities are calibrated anew, on what is left
        np.testing.assert_allclose(after.probabilities, kept / kept.sum(axis=1, keepdims=True), rtol=1e-5)
    stream.update(*digits(6))  # as a new class
    assert len(stream.classes) == 8


def test_forgotten_samples_leave_no_byte(tmp_path: Path) -> None:
    """Fifty of them, by the identities they had by default."""
    stream = three_updates("lucir", 200)
    values = np.concatenate([stream.held(label)[0][1::3] for label in (0, 1, 3, 4, 5, 6, 7)])[:50]
    before = accuracy(stream, *range(8))
    receipt = forget(stream, ids=[sample_id(value) for value in values])
    save_stream(tmp_path, stream)
    assert receipt.samples == 50
    assert stream.memory().total_samples == 150
    stored = contents(tmp_path)
    assert all(value.tobytes() not in stored for value in values)
    assert abs(accuracy(stream, *range(8)) - before) <= 0.01
    stream.update(*digits(8))
    assert stream.memory().total_samples == 200


def test_identities_that_were_given_find_their_samples() -> None:
    stream = Stream(config(budget=20))
    values, labels = digits(0, 1, most=6)
    stream.update(values, labels, ids=[f"photo {number}.jpg" for number in range(12)])
    forget(stream, ids=["photo 3.jpg"])
    assert values[3].tobytes() not in {value.tobytes() for value in stream.held(0)[0]}
    key = stream.held(1)[1][0]
    assert forget(stream, ids=[key]).samples == 1  # as `memory` prints it
    with pytest.raises(InputError, match=r"id: photo 3.jpg is not held; nothing was deleted"):
        forget(stream, ids=["photo 4.jpg", "photo 3.jpg"])
    assert stream.memory().total_samples == 10


def test_a_sample_that_came_twice_goes_twice() -> None:
    stream = Stream(config(budget=50))
    values, labels = digits(0, 1, most=5)
    stream.update(values, labels)
    stream.update(values[:1], labels[:1])
    assert forget(stream, ids=[sample_id(values[0])]).samples == 2


def test_a_class_without_samples_goes_as_well() -> None:
    stream = three_updates()
    receipt = forget(stream, ids=[sample_id(value) for value in stream.held(4)[0]])
    assert receipt.classes == (4,)
    assert 4 not in stream.classes


@pytest.mark.parametrize("method", ["icarl", "lucir-aanets", "podnet"])
def test_retraining_starts_from_new_weights_and_goes_on(method: str) -> None:
    stream = three_updates(method)
    held = {label: set(stream.held(label)[1]) for label in (0, 1, 2, 3, 4, 5, 7)}
    trained = stream.episode.learner.state()
    receipt = forget(stream, classes=[6], retrain=True)
    assert receipt.retrained
    assert "trained anew" in receipt.text()
    assert {label: set(stream.held(label)[1]) for label in held} == held
    anew = stream.episode.learner.state()
    shared = [name for name in anew if name.startswith("backbone") and name in trained and anew[name].dim() > 1]
    assert not any(anew[name].equal(trained[name]) for name in shared)
    stream.update(*digits(8, 9))
    stream.update(*digits(3, most=5))
    assert stream.classes == (0, 1, 2, 3, 4, 5, 7, 8, 9)
    assert accuracy(stream, *stream.classes) > 0.3


def test_receipts_verify(tmp_path: Path) -> None:
    stream = three_updates()
    before = digest_of(stream)
    receipt = forget(stream, classes=[1])
    assert (receipt.before, receipt.after) == (before, digest_of(stream))
    again = Receipt.from_json(receipt.to_json())
    assert again == receipt
    assert again.fits(stream)
    save_stream(tmp_path, stream)
    assert again.fits(load_stream(tmp_path))
    assert "may still reflect them" in receipt.text()
    with pytest.raises(DamagedFileError, match="does not match its checksum"):
        Receipt.from_json(receipt.to_json() | {"samples": 1})
    stream.update(*digits(1, most=3))
    assert not again.fits(stream)


def test_what_cannot_be_forgotten_is_said_and_nothing_changes() -> None:
    stream = three_updates()
    before = digest_of(stream)
    for arguments, message in (
        ({}, "forget: nothing given; expected classes or ids"),
        ({"classes": ["nine"]}, "class: 'nine' is not known"),
        ({"classes": list(range(8))}, "forget: nothing would be left"),
    ):
        with pytest.raises(InputError, match=message):
            forget(stream, **arguments)
    assert digest_of(stream) == before
