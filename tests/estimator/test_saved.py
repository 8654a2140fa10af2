"""Saved streams: equal after loading, within their bytes, and never believed when damaged."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import remem
from remem.errors import DamagedFileError, InputError
from remem.estimator.saved import EXEMPLARS, digest_of, load_stream, save_stream
from remem.estimator.stream import Stream
from stream_factories import X, config, digits, three_updates

METHODS = ["icarl", "lucir", "podnet", "mnemonics", "lucir-aanets", "pod-aanets"]


@pytest.mark.parametrize("codec", ["raw", "int8"])
@pytest.mark.parametrize("method", METHODS)
def test_a_loaded_stream_goes_on_like_one_that_was_never_saved(method: str, codec: str, tmp_path: Path) -> None:
    stream = three_updates(method, "20kB", memory={"codec": codec}, policy="rmm")
    save_stream(tmp_path, stream)
    loaded = load_stream(tmp_path)
    assert digest_of(loaded) == digest_of(stream)
    np.testing.assert_array_equal(loaded.model().predict(X).probabilities, stream.model().predict(X).probabilities)
    for one in (stream, loaded):
        one.update(*digits(1, 8, 9))
    assert digest_of(loaded) == digest_of(stream)


@pytest.mark.parametrize(("budget", "codec"), [("20kB", "raw"), ("20kB", "int8"), ("200kB", "float16")])
def test_the_file_of_samples_is_within_the_budget_and_within_a_hundredth_of_the_bill(
    budget: str, codec: str, tmp_path: Path
) -> None:
    stream = three_updates(budget=budget, memory={"codec": codec})
    save_stream(tmp_path, stream)
    size, bill = (tmp_path / EXEMPLARS).stat().st_size, stream.memory().total_bytes
    assert size <= int(budget.removesuffix("kB")) * 1000
    assert bill < size < 1.01 * bill + 1024  # the head of the file, which the budget has room for


def test_a_saved_model_predicts_without_its_samples(tmp_path: Path) -> None:
    stream = three_updates("lucir")
    save_stream(tmp_path, stream)
    (tmp_path / EXEMPLARS).unlink()
    found = remem.load_model(tmp_path / "model.safetensors").predict(X)
    np.testing.assert_array_equal(found.probabilities, stream.model().predict(X).probabilities)


def test_equal_streams_give_equal_files(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        save_stream(tmp_path / name, three_updates())
    for file in ("model.safetensors", EXEMPLARS):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes()


def test_samples_of_another_model_are_not_believed(tmp_path: Path) -> None:
    for name, seed in (("one", 0), ("other", 1)):
        (tmp_path / name).mkdir()
        save_stream(tmp_path / name, three_updates(seed=seed))
    (tmp_path / "other" / EXEMPLARS).replace(tmp_path / "one" / EXEMPLARS)
    with pytest.raises(DamagedFileError, match="not the samples of the model beside it"):
        load_stream(tmp_path / "one")


@pytest.mark.parametrize("file", ["model.safetensors", EXEMPLARS])
def test_damage_is_noticed(file: str, tmp_path: Path) -> None:
    save_stream(tmp_path, three_updates())
    content = bytearray((tmp_path / file).read_bytes())
    content[-100] ^= 1
    (tmp_path / file).write_bytes(bytes(content))
    with pytest.raises(DamagedFileError, match="does not match its checksum"):
        load_stream(tmp_path)


def test_a_policy_of_ones_own_travels_with_the_model(tmp_path: Path) -> None:
    import shutil

    from remem.policies.table import ZOO

    shutil.copytree(ZOO / "rmm-glyphs", tmp_path / "policy")
    stream = three_updates(policy=str(tmp_path / "policy"))
    (tmp_path / "model").mkdir()
    save_stream(tmp_path / "model", stream)
    shutil.rmtree(tmp_path / "policy")
    shutil.move(tmp_path / "model", tmp_path / "moved")
    loaded = load_stream(tmp_path / "moved")
    loaded.update(*digits(8, 9))
    assert len(loaded.classes) == 10


def test_a_module_of_ones_own_is_asked_for(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 8))
    stream = Stream(config(), module)
    stream.update(*digits(0, 1, 2))
    save_stream(tmp_path, stream)
    with pytest.raises(InputError, match=r"a module of your own .* expected it as `backbone`"):
        load_stream(tmp_path)
    assert digest_of(load_stream(tmp_path, module=module)) == digest_of(stream)
