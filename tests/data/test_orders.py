"""Class orders: published orders match their publications, user files are validated."""

import json
from pathlib import Path

import numpy as np
import pytest

from remem.data.orders import class_order, published_lists, subset_labels
from remem.errors import DamagedFileError, InputError


def test_published_beginnings() -> None:
    assert class_order("lucir", "cifar100", 100)[:5] == (68, 56, 78, 8, 23)
    assert class_order("podnet-1", "cifar100", 100)[:4] == (87, 0, 52, 58)
    assert class_order("podnet-2", "cifar100", 100)[:4] == (58, 30, 93, 69)
    assert class_order("podnet-3", "cifar100", 100)[:4] == (71, 54, 45, 32)
    assert class_order("lucir", "imagenet-full", 1000)[:4] == (54, 7, 894, 512)


def test_every_published_order_has_each_label_once() -> None:
    for lists in published_lists().values():
        for name, labels in lists.items():
            if name != "classes":
                assert sorted(labels) == list(range(len(labels)))


def test_lucir_is_the_shuffle_of_seed_1993() -> None:
    assert class_order("lucir", "cifar100", 100) == class_order("seed:1993", "cifar100", 100)
    assert class_order("lucir", "imagenet-full", 1000) == class_order("seed:1993", "imagenet-full", 1000)
    assert class_order("lucir", "glyphs", 100) == class_order("lucir", "cifar100", 100)
    assert sorted(class_order("lucir", "digits", 10)) == list(range(10))


def test_subsets_are_positions_among_1000() -> None:
    lucir, podnet = subset_labels("imagenet-subset-lucir"), subset_labels("imagenet-subset-podnet")
    assert podnet == tuple(range(100))
    assert len(set(lucir) & set(podnet)) == 9
    assert lucir == tuple(sorted(np.random.RandomState(1993).permutation(1000)[:100].tolist()))
    first = [lucir[label] for label in class_order("lucir", "imagenet-subset-lucir", 100)[:4]]
    assert first == [637, 509, 782, 85]


def test_seeds_and_natural() -> None:
    assert class_order("natural", "any", 4) == (0, 1, 2, 3)
    orders = {class_order(f"seed:{seed}", "any", 20) for seed in range(5)}
    assert len(orders) == 5
    assert all(sorted(order) == list(range(20)) for order in orders)


def test_user_file(tmp_path: Path) -> None:
    path = tmp_path / "order.json"
    path.write_text("[2, 0, 1]")
    assert class_order(str(path), "any", 3) == (2, 0, 1)


@pytest.mark.parametrize("content", [[0, 1], [0, 1, 1], [0, 1, 3], [0, 1, "2"], [False, True, 2], {"0": 1}])
def test_wrong_user_file(tmp_path: Path, content: object) -> None:
    path = tmp_path / "order.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"order: .*order\.json"):
        class_order(str(path), "any", 3)


def test_unreadable_user_file(tmp_path: Path) -> None:
    with pytest.raises(DamagedFileError, match=r"absent\.json"):
        class_order(str(tmp_path / "absent.json"), "any", 3)
    (tmp_path / "cut.json").write_text("[0, 1")
    with pytest.raises(DamagedFileError, match=r"cut\.json"):
        class_order(str(tmp_path / "cut.json"), "any", 3)


@pytest.mark.parametrize("spec", ["lucri", "seed:", "seed:-1", "seed:x", "seed:4294967296", "podnet-4", ""])
def test_wrong_specs(spec: str) -> None:
    with pytest.raises(InputError, match=f"order: '{spec}'"):
        class_order(spec, "cifar100", 100)


def test_podnet_orders_belong_to_their_data_sets() -> None:
    with pytest.raises(InputError, match=r"published for cifar100$"):
        class_order("podnet-2", "glyphs", 100)
