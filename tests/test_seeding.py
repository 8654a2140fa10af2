"""seeding.py: equal keys give equal streams anywhere, different keys give different ones."""

import hashlib
from itertools import product

import numpy as np

from remem.seeding import Streams


def test_the_integer_is_the_first_63_bits_of_the_key() -> None:
    digest = hashlib.sha256(b"7/pseudo 2/3/main/order/11").digest()
    expected = sum(byte << (8 * place) for place, byte in enumerate(digest[:8])) // 2
    assert Streams(7, "pseudo 2").integer(3, "main/order", 11) == expected
    assert 0 <= expected < 2**63


def test_known_value_never_changes() -> None:
    """A constant worked out once: another value would make every published result unrepeatable."""
    assert Streams(0).integer(0, "weights") == 6150298447170974806


def test_every_part_of_the_key_counts() -> None:
    parts = list(product((0, 1), ("target", "pseudo 0"), (0, 1), ("a", "b"), (0, 1)))
    integers = {Streams(seed, task).integer(phase, purpose, epoch) for seed, task, phase, purpose, epoch in parts}
    assert len(integers) == len(parts) == 32


def test_streams_do_not_depend_on_what_was_drawn_before() -> None:
    streams = Streams(5)
    first = streams.numpy(1, "load/3").permutation(50)
    streams.numpy(1, "load/4").random(1000)
    np.random.default_rng().random(10)
    assert np.array_equal(first, Streams(5).numpy(1, "load/3").permutation(50))
    assert not np.array_equal(first, streams.numpy(2, "load/3").permutation(50))
