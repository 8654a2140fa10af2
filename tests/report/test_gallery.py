"""gallery.py and `remem report` on a real run: pictures that are held and dropped, and why there are none."""

import base64
import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from remem.cli.main import main
from remem.codecs.table import CODECS
from remem.data.datasets import load_dataset
from remem.data.settings import DataSettings
from remem.report.gallery import EACH, SIDE, gallery
from remem.runs.results import load_result

FLAGS = (
    "--dataset",
    "digits",
    "--phases",
    "2",
    "--budget",
    "100",
    "--set",
    "train.epochs=1",
    "--set",
    "finetune.epochs=0",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("gallery") / "run"
    with pytest.raises(SystemExit, match="0"):
        main(["run", *FLAGS, "--quiet", "--out", str(out)])
    return out


def tiles(strip: str) -> list[np.ndarray]:
    image = Image.open(io.BytesIO(base64.b64decode(strip.partition(",")[2]))).convert("L")
    whole = np.asarray(image, float)
    return [whole[:, SIDE * place : SIDE * (place + 1)] for place in range(image.width // SIDE)]


def test_held_and_dropped_pictures_of_every_class(run: Path) -> None:
    shown = gallery("run", run)
    result, data = load_result(run), load_dataset(DataSettings(name="digits"))
    assert [one.name for one in shown.classes] == list(result.class_names)
    labels = data.train.labels
    for position, one in enumerate(shown.classes):
        label = result.class_order[position]
        assert one.held == result.phases[-1].held_per_class[str(position)]
        assert one.held + one.dropped == int((labels == label).sum())
        assert len(tiles(one.held_strip)) == min(EACH, one.held)
        pictures = data.train.read(np.flatnonzero(labels == label)).astype(float)[..., 0]
        for tile in tiles(one.held_strip) + tiles(one.dropped_strip):  # each is a picture of this class
            small = tile.reshape(8, SIDE // 8, 8, SIDE // 8).mean(axis=(1, 3))
            nearest = np.abs(pictures - small).mean(axis=(1, 2)).min()
            assert nearest < 8  # grey levels; WebP is lossy


def test_what_is_stored_coarsely_is_shown_so(tmp_path: Path) -> None:
    out = tmp_path / "coarse"
    budget = ("--budget", "3200B", "--codec", "ycc420-4")  # 32 bytes for 8 x 8 grey levels of 4 bits
    with pytest.raises(SystemExit, match="0"):
        main(["run", *FLAGS, *budget, "--quiet", "--out", str(out)])
    result, data = load_result(out), load_dataset(DataSettings(name="digits"))
    every = data.train.read(np.arange(len(data.train.labels)))
    codec = CODECS["ycc420-4"]
    decoded = codec.decode(codec.encode(every), every.shape[1:])
    distances = []
    for position, one in enumerate(gallery("run", out).classes):
        assert one.held == result.phases[-1].held_per_class[str(position)]
        own = data.train.labels == result.class_order[position]
        for tile in tiles(one.held_strip):
            small = tile.reshape(8, SIDE // 8, 8, SIDE // 8).mean(axis=(1, 3))
            exact, coarse = (np.abs(x[own][..., 0] - small).mean(axis=(1, 2)).min() for x in (every, decoded))
            distances.append((exact, coarse))
    exact, coarse = np.mean(distances, axis=0)
    assert coarse < exact / 2  # what is left is the loss of WebP


def test_without_data_or_checkpoint_the_reason_is_given(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / "checkpoint.safetensors").unlink()
    found = gallery("run", copy)
    assert found.classes == ()
    assert "checkpoint.safetensors" in found.reason


def test_the_command_writes_the_page(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "report.html"
    with pytest.raises(SystemExit, match="0"):
        main(["report", str(run), "--out", str(out)])
    assert capsys.readouterr().err == f"report: {out}\n"
    text = out.read_text(encoding="utf-8")
    for part in ("Losses", "Confusion", "Remembered and dropped", "data:image/webp;base64,"):
        assert part in text
    assert f"remem report {run} --out {out}" in text
    with pytest.raises(SystemExit, match="2"):
        main(["report", str(tmp_path / "none"), "--out", str(out)])
    assert capsys.readouterr().err.count("\n") == 1
