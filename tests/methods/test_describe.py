"""describe.py: large tables are stored in files, and processes divide the work. See also the learner's tests."""

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import factories
from remem.data.augment import AugmentPlan
from remem.methods import describe as module
from remem.methods.describe import describe, evaluating, table
from remem.nets.network import Network, build_network
from remem.nets.settings import HeadSettings, NetSettings
from remem.types import Samples


def test_small_tables_are_in_memory_and_large_ones_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 4 * 12)
    small, large = table(4, 3), table(5, 3)
    assert not isinstance(small, np.memmap)
    assert isinstance(large, np.memmap)
    for made in (small, large):
        assert made.dtype == np.float32
        assert not made.any()
        made[1:3] = 7.0
        assert made.sum() == 2 * 3 * 7


def test_on_a_full_disk_the_table_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "LARGEST", 0)
    monkeypatch.setattr(os, "posix_fallocate", full)
    made = table(5, 3)
    assert not isinstance(made, np.memmap)
    assert made.shape == (5, 3)
    assert table(0, 3).shape == (0, 3)


def test_sixteen_megabytes_stay_in_memory() -> None:
    """2^22 numbers of four bytes each are 16 MiB."""
    assert not isinstance(table(2**12, 2**10), np.memmap)
    assert isinstance(table(2**12 + 1, 2**10), np.memmap)


class OneOfTwo:
    """A fake Fabric of one of two processes; the other one's table is all zeros."""

    world_size, device = 2, torch.device("cpu")

    def __init__(self, rank: int) -> None:
        self.global_rank = rank
        self.reductions: list[str] = []

    def autocast(self) -> AbstractContextManager[None]:
        return nullcontext()

    def broadcast(self, value: str, src: int) -> str:
        return value

    def to_device(self, value: Tensor) -> Tensor:
        return value

    def all_reduce(self, value: Tensor, reduce_op: str) -> Tensor:
        self.reductions.append(reduce_op)
        return value + 0.0


def network_of_vectors() -> Network:
    network = build_network(NetSettings(name="mlp", hidden=(), width=5), (6,), HeadSettings(name="linear"), 1)
    network.head.grow(3, torch.Generator().manual_seed(2))
    return network


def test_two_processes_fill_their_own_rows_of_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten samples in chunks of four: the first process has one chunk, the second has four and two samples."""
    monkeypatch.setattr(module, "CHUNK", 4)
    reader, network, rows = factories.blobs().train, network_of_vectors(), np.arange(3, 13)
    network.eval()
    with torch.no_grad():
        whole = network(torch.from_numpy(reader.read(rows)))
    for rank, own in ((0, slice(0, 4)), (1, slice(4, 10))):
        fabric: Any = OneOfTwo(rank)
        samples = Samples(rows, np.zeros(10, np.int64))
        described = describe(network, reader, samples, plan=AugmentPlan(), fabric=fabric)
        assert fabric.reductions == ["sum", "sum"]
        for got, full in ((described.features, whole.features.numpy()), (described.logits, whole.logits.numpy())):
            expected = np.zeros_like(full)
            expected[own] = full[own]
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5)  # float32 of order 1, other batch sizes
            assert not np.delete(got, np.arange(10)[own], axis=0).any()  # exact zeros, so that the sum is exact


@pytest.mark.parametrize("training", [True, False])
def test_evaluating_restores_the_mode_even_after_an_error(training: bool) -> None:
    network, inside = network_of_vectors().train(training), list[bool]()

    def failing() -> None:
        with evaluating(network):
            inside.extend([network.training, torch.is_grad_enabled()])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert inside == [False, False]
    assert network.training == training
    assert torch.is_grad_enabled()
