"""`digits`: the 1797 handwritten digits of 8 x 8 pixels that ship with scikit-learn, for quick tests."""

import numpy as np

from remem.data.arrays import as_values, from_arrays
from remem.data.preprocessing import Preprocessing
from remem.data.settings import DataSettings
from remem.data.source import Dataset, DatasetEntry, never_damaged
from remem.types import IntArray


def load_digits(settings: DataSettings) -> Dataset:
    """Every fourth sample of a class is a test sample, since scikit-learn defines no split."""
    from sklearn import datasets

    bunch = datasets.load_digits()
    images = (bunch.images.astype(np.int64) * 255 + 8) // 16  # 0..16 -> 0..255, rounded half up
    images = as_values(images.astype(np.uint8), "digits", settings.side)
    test = every_fourth(bunch.target)
    return from_arrays(
        images[~test],
        bunch.target[~test],
        images[test],
        bunch.target[test],
        name="digits",
        preprocessing=Preprocessing(mean=None, std=None, augment="none", flip=False),
    )


def every_fourth(labels: IntArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Marks the fourth, eighth, ... sample of each class."""
    marked = np.zeros(len(labels), dtype=np.bool_)
    for label in np.unique(labels):
        marked[np.flatnonzero(labels == label)[3::4]] = True
    return marked


ENTRY = DatasetEntry(
    summary="1797 handwritten digits, 8 x 8 grey, from scikit-learn: for quick tests",
    load=load_digits,
    check=never_damaged,
)
