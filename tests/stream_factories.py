"""Small streams for tests: digits as vectors, one or two epochs."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from remem.estimator.stream import Stream
from remem.runs.config import RunConfig, compose
from remem.runs.trees import Tree, merged

X: NDArray[np.float32]
y: NDArray[np.int64]
X, y = load_digits(return_X_y=True)
X = X.astype(np.float32)
IMAGES = X.reshape(-1, 8, 8).astype(np.uint8) * 15  # (n, 8, 8)


def config(method: str = "icarl", budget: int | str = 200, **settings: Any) -> RunConfig:
    tree: Tree = {
        "data": {"name": "stream"},
        "method": {"name": method},
        "memory": {"budget": budget},
        "train": {"epochs": 2, "precision": "fp32"},
        "finetune": {"epochs": 2},
    }
    return compose(merged(tree, settings))


def digits(*classes: int, most: int | None = None) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The samples of some digits; at most so many of each."""
    places = np.concatenate([np.flatnonzero(y == label)[:most] for label in classes])
    return X[places], y[places]


def three_updates(method: str = "icarl", budget: int | str = 200, **settings: Any) -> Stream:
    """Five classes, three more, and a known one again."""
    stream = Stream(config(method, budget, **settings))
    stream.update(*digits(0, 1, 2, 3, 4))
    stream.update(*digits(5, 6, 7))
    stream.update(*digits(2, most=10))
    return stream
