"""The registry of data sets and the data root."""

from pathlib import Path

import pytest

from remem.data.datasets import DATASETS, load_dataset
from remem.data.settings import DataSettings
from remem.data.source import cache_folder, data_root
from remem.errors import InputError


def test_every_documented_name_is_registered() -> None:
    names = "glyphs digits cifar100 mini-imagenet imagenet-subset-lucir imagenet-subset-podnet imagenet-full"
    assert set(names.split()) <= set(DATASETS)
    for name in DATASETS:
        assert "\n" not in DATASETS[name].summary
        assert DATASETS[name].summary


def test_typos_get_a_suggestion() -> None:
    with pytest.raises(InputError, match="no data set named 'cifar10'; did you mean 'cifar100'"):
        load_dataset(DataSettings(name="cifar10"))
    with pytest.raises(InputError, match="'npz:' has no path; expected npz:PATH"):
        load_dataset(DataSettings(name="npz:"))
    with pytest.raises(InputError, match="no data set named 'zip:x'"):
        load_dataset(DataSettings(name="zip:x"))


def test_data_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REMEM_DATA", str(tmp_path / "variable"))
    assert data_root(DataSettings(root=tmp_path / "setting")) == tmp_path / "setting"
    assert data_root(DataSettings()) == tmp_path / "variable"
    monkeypatch.setenv("REMEM_DATA", "")
    assert data_root(DataSettings()) == cache_folder()
    monkeypatch.delenv("REMEM_DATA")
    assert data_root(DataSettings()) == cache_folder()


def test_the_data_root_expands_the_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_root(DataSettings(root=Path("~/data"))) == tmp_path / "data"


@pytest.mark.parametrize("name", ["cifar100", "mini-imagenet", "imagenet-full", "imagenet-subset-lucir"])
def test_an_empty_root_is_explained(name: str, tmp_path: Path) -> None:
    settings = DataSettings(name=name, root=tmp_path / "nothing")
    with pytest.raises(InputError, match=rf"^{name}: no .* below .*nothing; the data root is --data-root"):
        load_dataset(settings)
    problems = DATASETS[name].check(settings)
    assert len(problems) == 1
    assert "REMEM_DATA" in problems[0]


def test_settings_refuse_unknown_keys_and_bad_values() -> None:
    with pytest.raises(ValueError, match="image_sise"):
        DataSettings.model_validate({"image_sise": 16})
    with pytest.raises(ValueError, match="image_size"):
        DataSettings(image_size=0)
