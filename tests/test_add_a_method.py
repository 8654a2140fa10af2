"""docs/guides/add-a-method.md: its example is a method like any other, and the page shows the files that run here."""

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from factories import blobs
from remem.api import run, scenario
from remem.cli.main import main
from remem.events import Event
from remem.methods.events import EpochEnded
from remem.methods.table import METHODS
from remem.runs.config import compose
from remem.runs.presets import read_toml

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "add_a_method"
PAGE = ROOT / "docs" / "guides" / "add-a-method.md"
HOME = "remem.methods.smooth"  # where the file belongs in the package, and what its own test imports
LINE = f'METHODS.add_lazy("smooth", "{HOME}:ENTRY")'


def load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def smooth() -> Iterator[ModuleType]:
    """The example, registered by the line that the page shows; removed afterwards, so that no other test sees it."""
    assert LINE in PAGE.read_text(encoding="utf-8")
    module = load(HOME, EXAMPLE / "smooth.py")
    exec(LINE, {"METHODS": METHODS})
    yield module
    METHODS.remove("smooth")
    del sys.modules[HOME]


def test_its_own_test_passes(smooth: ModuleType) -> None:
    module = load("test_smooth", EXAMPLE / "test_smooth.py")
    tests = [value for name, value in vars(module).items() if name.startswith("test_")]
    del sys.modules["test_smooth"]
    assert len(tests) == 2
    for test in tests:
        test()


def test_runs_from_phase_0_to_the_last(smooth: ModuleType) -> None:
    """Six classes that can be told apart without a mistake; both terms of the loss are reported."""
    events: list[Event] = []
    settings = {"train.epochs": 8, "train.batch_size": 16, "finetune.epochs": 2, "train.precision": "fp32"}
    result = run(
        scenario(blobs(), phases=2, base_classes=2),
        method="smooth",
        policy="fixed-0.5",
        budget=40,
        settings=settings | {"method.keep": 1.0},
        emit=events.append,
    )
    terms = {(e.phase > 0, e.stage): set(e.loss) for e in events if isinstance(e, EpochEnded)}
    both = {"classify", "keep"}
    assert terms == {(False, "main"): {"classify"}, (True, "main"): both, (True, "balanced"): both}
    assert result.config["method"] == {"name": "smooth", "smoothing": 0.1, "keep": 1.0}
    assert [phase.held_old + phase.held_new for phase in result.phases] == [40, 40, 40]
    assert result.last_accuracy > 0.9


def test_config_file_and_command(smooth: ModuleType, tmp_path: Path) -> None:
    """The file as it is builds; with another data set over it, it runs."""
    config = compose(read_toml(EXAMPLE / "smooth.toml"))
    assert (config.method.name, config.data.name, config.memory.budget) == ("smooth", "cifar100", 7000)
    data = blobs()
    arrays = {"x_train": data.train.read(np.arange(120)), "y_train": data.train.labels}
    arrays |= {"x_test": data.test.read(np.arange(48)), "y_test": data.test.labels}
    np.savez(tmp_path / "blobs.npz", allow_pickle=False, **arrays)
    flags = ["--dataset", f"npz:{tmp_path / 'blobs.npz'}", "--phases", "2", "--budget", "40", "--device", "cpu"]
    quick = ["--set", "train.epochs=1", "--set", "finetune.epochs=0"]
    with pytest.raises(SystemExit) as end:
        main(["run", str(EXAMPLE / "smooth.toml"), *flags, *quick, "--quiet", "--out", str(tmp_path / "out")])
    assert end.value.code == 0
    result = json.loads((tmp_path / "out" / "result.json").read_text(encoding="utf-8"))
    assert (result["status"], result["config"]["method"]["name"]) == ("complete", "smooth")
    assert result["samples_peak"] == 40


def test_page_shows_the_files_that_ran() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in ("smooth.py", "test_smooth.py", "smooth.toml"):
        assert (EXAMPLE / name).read_text(encoding="utf-8") in page
