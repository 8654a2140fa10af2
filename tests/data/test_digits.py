"""`digits`: a fixed split, pixels in 0..255."""

import numpy as np
from sklearn.datasets import load_digits

from remem.data.datasets import load_dataset
from remem.data.settings import DataSettings


def test_split_and_pixels() -> None:
    data = load_dataset(DataSettings(name="digits"))
    assert data.train.shape == (8, 8, 1)
    assert len(data.train.labels) + len(data.test.labels) == 1797
    assert data.class_names == tuple("0123456789")
    images, labels = load_digits(return_X_y=True)
    for label in range(10):
        rows = np.flatnonzero(labels == label)
        test = data.test.read(np.flatnonzero(data.test.labels == label)).reshape(-1, 64)
        train = data.train.read(np.flatnonzero(data.train.labels == label)).reshape(-1, 64)
        assert len(train) == len(rows) - len(rows) // 4
        assert np.array_equal(test, np.floor(images[rows[3::4]] * 255 / 16 + 0.5))
        assert np.array_equal(train[3], np.floor(images[rows[4]] * 255 / 16 + 0.5))


def test_loading_is_deterministic_and_image_size_is_respected() -> None:
    whole, again, small = (load_dataset(DataSettings(name="digits", image_size=size)) for size in (None, 8, 4))
    assert whole.train.fingerprint == again.train.fingerprint != small.train.fingerprint
    assert small.train.shape == (4, 4, 1)
    block = whole.train.read(np.array([5]))[0, :2, 2:4, 0]
    assert small.train.read(np.array([5]))[0, 0, 1, 0] == int(block.mean() + 0.5)
