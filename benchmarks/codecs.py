"""Reading a batch of coded samples: what decoding adds to a training step of `lucir`, batch 128, at 16 and 32 px."""

from functools import partial
from statistics import median

import numpy as np

from benchmarks.table import Row
from benchmarks.timing import alternate, shown
from remem.codecs.table import CODECS
from remem.data.arrays import from_arrays
from remem.data.bank import Bank
from remem.data.images import resize
from remem.data.scenario import build_scenario
from remem.data.source import ArraySource
from remem.runs.build import prepare
from remem.runs.config import compose
from remem.runs.dry_run import plan
from remem.runs.estimate import try_out
from remem.types import Values

BATCH, SIDES = 128, (16, 32)


def pictures(side: int, count: int) -> Values:
    """Smooth noise, which compresses about as a photograph does."""
    coarse = np.random.default_rng(0).integers(0, 256, (count, side // 4, side // 4, 3), dtype=np.uint8)
    fine = coarse.repeat(8, axis=1).repeat(8, axis=2)
    return resize(fine, side)


def step_seconds(side: int) -> float:
    """CPU seconds of one step after phase 0, on one thread."""
    values, labels = pictures(side, 20 * 64), np.repeat(np.arange(20), 64)
    dataset = from_arrays(values, labels, values[::8], labels[::8], name="noise")
    config = compose({"method": {"name": "lucir"}, "train": {"threads": 1}, "data": {"name": "noise"}})
    prepared = prepare(config, scenario=build_scenario(dataset, config.scenario))
    return BATCH * try_out(prepared, plan(prepared), 6.0).later["main"]


def rows_of(side: int, repeats: int) -> list[Row]:
    step, values, rows = step_seconds(side), pictures(side, BATCH), np.arange(BATCH)
    source, banks = ArraySource(values, np.zeros(BATCH, np.int64)), {}
    for name in CODECS:
        if not CODECS[name].from_file and CODECS[name].misfit(values.shape[1:]) is None and name != "raw":
            banks[name] = Bank(source)
            banks[name].keep(rows, name)
    took = alternate({name: partial(bank.read, rows) for name, bank in banks.items()}, repeats)
    return [
        Row(
            f"decoding {name}, share of a step at {side} px",
            100 * median(seconds) / step,
            "%",
            "under 5%",
            f"{shown(median(seconds))} of {shown(step)}, a batch of {BATCH} of lucir on one thread",
        )
        for name, seconds in took.items()
    ]


def rows(repeats: int = 21) -> list[Row]:
    return [row for side in SIDES for row in rows_of(side, repeats)]
