"""Pictures that a run remembers, and pictures that it has dropped, where its data set is at hand."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from remem.codecs.table import RAW
from remem.data.bank import Bank
from remem.errors import InputError
from remem.report.groups import group_runs, run_names
from remem.report.inputs import StoredRun
from remem.types import IntArray, Values

if TYPE_CHECKING:
    from remem.runs.prepared import Prepared
    from remem.storage.tensorfile import Snapshot

CHECKPOINT = "checkpoint.safetensors"
CLASSES, EACH = 12, 8  # how many classes are shown, and how many pictures of each
SIDE = 48  # pixels of a thumbnail
MOST = 4  # runs with pictures


@dataclass(frozen=True)
class Shown:
    """One class: strips of thumbnails as data URLs, empty without pictures, and how many pictures there are."""

    name: str
    held: int
    dropped: int
    held_strip: str
    dropped_strip: str


@dataclass(frozen=True)
class Gallery:
    """The pictures of a run; or none, and why there are none."""

    name: str
    classes: tuple[Shown, ...]
    reason: str = ""


def galleries(runs: Sequence[StoredRun], data_root: Path | None = None) -> list[Gallery]:
    """Pictures of the first run of every group that has its folder."""
    results = [run.result for run in runs]
    firsts = {id(group.runs[0]) for group in group_runs(results)}
    named = zip(runs, run_names(results), strict=True)
    chosen = [(run.folder, name) for run, name in named if run.folder is not None and id(run.result) in firsts]
    return [gallery(name, folder, data_root) for folder, name in chosen[:MOST]]


def gallery_section(galleries: Sequence[Gallery]) -> list[str]:
    """What the runs hold in the end, and what they have dropped."""
    blocks = []
    for place, gallery in enumerate(galleries):
        if gallery.classes:
            items = "".join(map(_pictures, gallery.classes))
            begin = f"<details{' open' if place == 0 else ''}><summary>{escape(gallery.name)}</summary>"
            blocks.append(f'{begin}<div class="pictures">{items}</div></details>')
        else:
            blocks.append(f'<p class="soft">{escape(gallery.name)}: no pictures; {escape(gallery.reason)}</p>')
    return ["<h2>Remembered and dropped</h2>", *blocks] if blocks else []


def gallery(name: str, folder: Path, data_root: Path | None = None) -> Gallery:
    """Classes of a run, spread over the class order."""
    from remem.runs.build import prepare
    from remem.runs.migrations import migrate_checkpoint
    from remem.runs.run import read_config
    from remem.storage.tensorfile import load_snapshot

    try:
        snapshot = load_snapshot(folder / CHECKPOINT, migrate_checkpoint)
        prepared = prepare(read_config(folder, data_root)[0])
    except InputError as error:
        return Gallery(name, (), str(error))
    if len(prepared.scenario.bank.shape) != 3:
        return Gallery(name, (), "the samples are vectors")
    bank, held = _stored(prepared.scenario.bank.fresh_copy(), snapshot)
    return Gallery(name, tuple(_shown(prepared, bank, held)))


def _stored(bank: Bank, snapshot: "Snapshot") -> tuple[Bank, dict[int, IntArray]]:
    """The bank with everything that the checkpoint stores, codes and refined rows included; held rows by class."""
    parts = {name: {key: v.numpy() for key, v in tensors.items()} for name, tensors in snapshot.parts().items()}
    facts, state = snapshot.facts["episode"], parts["memory"]
    if "owned" in parts:
        owned = dict(zip(parts["owned"]["rows"].tolist(), parts["owned"]["values"], strict=True))
        bank.restore_owned(owned, facts["next_row"])
    bank.restore_codes(parts.get("codes", {}), state["rows"], facts.get("codec", RAW))
    rows = np.split(state["rows"], np.cumsum(state["counts"])[:-1])
    return bank, dict(zip(state["labels"].tolist(), rows, strict=True))


def _shown(prepared: "Prepared", bank: Bank, held: Mapping[int, IntArray]) -> list[Shown]:
    scenario = prepared.scenario
    train = {label: rows for phase in scenario.phases for label, rows in phase.train.items()}
    labels = list(held)
    chosen = np.unique(np.linspace(0, len(labels) - 1, min(CLASSES, len(labels))).round().astype(int))
    found = []
    for label in (labels[place] for place in chosen.tolist()):
        dropped = np.setdiff1d(train[label], held[label])
        spread = dropped[np.linspace(0, len(dropped) - 1, min(EACH, len(dropped))).round().astype(int)]
        strips = _strip(bank, held[label][:EACH]), _strip(scenario.bank, spread)
        found.append(Shown(scenario.class_names[label], len(held[label]), len(dropped), *strips))
    return found


def _strip(bank: Bank, rows: IntArray) -> str:
    """Pictures side by side, as the URL of one WebP image; empty if there are none."""
    if not len(rows):
        return ""
    images = [as_image(tile) for tile in bank.read(rows)]
    strip = Image.new("RGB", (SIDE * len(images), SIDE))
    for place, image in enumerate(images):
        pixelated = image.width < SIDE
        size = Image.Resampling.NEAREST if pixelated else Image.Resampling.LANCZOS
        strip.paste(image.resize((SIDE, SIDE), size), (SIDE * place, 0))
    return data_url(strip)


def as_image(tile: Values) -> Image.Image:
    """A stored picture (h, w, 1) or (h, w, 3)."""
    return Image.fromarray(tile[..., 0] if tile.shape[-1] == 1 else tile).convert("RGB")


def data_url(image: Image.Image) -> str:
    """A picture as part of a page."""
    buffer = io.BytesIO()
    image.save(buffer, format="WEBP", quality=80)
    return f"data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _pictures(shown: Shown) -> str:
    rows = ""
    for word, count, strip in (
        ("held", shown.held, shown.held_strip),
        ("dropped", shown.dropped, shown.dropped_strip),
    ):
        alt = escape(f"{word} pictures of {shown.name}")
        rows += f"<span>{word}: {count}</span>" + (f'<img alt="{alt}" src="{strip}">' if strip else "<span></span>")
    return f"<div><b>{escape(shown.name)}</b>{rows}</div>"
