"""Packed names: exact round trip, also for names that are not UTF-8."""

import numpy as np
import pytest

from remem.data.names import Names

ODD = ["ant/1.jpg", "", "Käfer/ß.png", "日本/一.webp", "bad\udcff/x.jpg", "last"]


def test_round_trip() -> None:
    names = Names.of(ODD)
    assert list(names) == ODD
    assert len(names) == 6
    assert [names[place] for place in (5, 0, 4)] == ["last", "ant/1.jpg", "bad\udcff/x.jpg"]
    with pytest.raises(IndexError):
        names[6]


def test_take_and_join() -> None:
    names = Names.of(ODD)
    assert list(names.take(np.array([3, 3, 0]))) == [ODD[3], ODD[3], ODD[0]]
    assert list(Names.joined([names, Names.of([]), Names.of(["more"])])) == [*ODD, "more"]
    assert list(Names.joined([])) == []


def test_a_name_takes_its_bytes_plus_eight() -> None:
    names = Names.of(f"n{number:08}/n{number:08}_10026.JPEG" for number in range(1000))
    assert len(names.text) + names.ends.nbytes == 1000 * (30 + 8)
