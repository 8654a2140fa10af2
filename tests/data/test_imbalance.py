"""Long-tailed training data: counts by hand, and nothing but training rows is cut."""

from collections import Counter

import numpy as np
import pytest

from remem.data.datasets import load_dataset
from remem.data.imbalance import long_tailed
from remem.data.preprocessing import Preprocessing
from remem.data.settings import DataSettings
from remem.data.source import ArraySource, Dataset
from remem.errors import InputError


def dataset(classes: int, each: int) -> Dataset:
    labels = np.tile(np.arange(classes), each)
    source = ArraySource(np.arange(len(labels), dtype=np.float32)[:, None], labels)
    return Dataset("toy", source, source, tuple(map(str, range(classes))), Preprocessing(None, None, "none", False))


def test_classes_lie_on_an_exponential_curve() -> None:
    whole = dataset(classes=5, each=160)
    cut = long_tailed(whole, 16)
    counts = Counter(cut.train.labels.tolist())
    assert sorted(counts.values(), reverse=True) == [160, 80, 40, 20, 10]  # 160 / 16 ** (k / 4)
    assert [counts[label] for label in range(5)] != sorted(counts.values(), reverse=True)  # in no order
    assert cut.test is whole.test


def test_rows_are_those_of_the_whole_data_set() -> None:
    whole = dataset(classes=3, each=20)
    cut = long_tailed(whole, 5).train
    rows = np.arange(len(cut.labels))
    values = cut.read(rows)[:, 0].astype(np.int64)  # the row of the whole data set
    assert len(set(values.tolist())) == len(values)
    assert whole.train.labels[values].tolist() == cut.labels.tolist()
    assert cut.shape == (1,)


def test_a_cut_has_its_own_fingerprint_and_is_the_same_each_time() -> None:
    whole = dataset(classes=3, each=20)
    one, again, other = long_tailed(whole, 5).train, long_tailed(whole, 5).train, long_tailed(whole, 6).train
    assert one.fingerprint == again.fingerprint
    assert len({one.fingerprint, other.fingerprint, whole.train.fingerprint}) == 3


def test_the_setting_reaches_every_data_set() -> None:
    plain, cut = (load_dataset(DataSettings(name="digits", imbalance=ratio)) for ratio in (1.0, 10.0))
    counts = Counter(cut.train.labels.tolist())
    assert len(cut.train.labels) < len(plain.train.labels)
    assert 8 < max(counts.values()) / min(counts.values()) < 12  # digits are not quite balanced themselves
    assert len(cut.test.labels) == len(plain.test.labels)


def test_one_class_has_no_tail() -> None:
    with pytest.raises(InputError, match=r"data\.imbalance: 2 given; expected at least two classes"):
        long_tailed(dataset(classes=1, each=4), 2)
