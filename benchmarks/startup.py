"""What a newcomer waits for: the refusal of a typo and the prediction of one photo, against `import torch`."""

import resource
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median

from PIL import Image

import remem
from benchmarks.table import Row
from benchmarks.timing import alternate, shown

TYPOS = {
    "a misspelt flag": ["run", "--methd", "lucir", "--out", "x"],
    "a misspelt method": ["run", "--method", "lucri", "--out", "x"],
    "a misspelt policy": ["run", "--policy", "fixed-60", "--out", "x"],
    "a misspelt data set": ["run", "--dataset", "cifar10", "--out", "x"],
    "a misspelt setting": ["run", "--set", "train.epoch=5", "--out", "x"],
}
HELP = {"the help of a command": ["run", "-h"]}


def children() -> float:
    """CPU seconds of all processes that this one has started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def call(*words: str) -> None:
    subprocess.run([sys.executable, *words], capture_output=True, check=False)


def rows(repeats: int = 5) -> list[Row]:
    """CPU seconds of whole processes, all in turn."""
    with tempfile.TemporaryDirectory() as place:
        model, photo = Path(place) / "run", Path(place) / "photo.png"
        scenario = remem.scenario("digits", phases=2)
        remem.run(scenario, budget=300, out=model, settings={"train": {"epochs": 1}, "finetune": {"epochs": 0}})
        Image.new("RGB", (640, 480), "white").save(photo)
        sides = {name: partial(call, "-m", "remem", *words) for name, words in (TYPOS | HELP).items()}
        sides["the prediction of one photo"] = partial(call, "-m", "remem", "predict", str(model), str(photo))
        took = alternate({"torch": partial(call, "-c", "import torch"), **sides}, repeats, children)
    torch = took.pop("torch")
    return [
        Row(
            name,
            median(own / one for own, one in zip(seconds, torch, strict=True)),
            "x",
            "< 0.5x" if name in TYPOS else "< 1.5x" if name not in HELP else "",
            f"{shown(median(seconds))} against {shown(median(torch))} of `import torch`",
        )
        for name, seconds in took.items()
    ]
