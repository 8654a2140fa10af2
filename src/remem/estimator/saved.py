"""A stream as files: the model, which predicts by itself, and the samples it keeps, within the budget."""

import hashlib
import json
from pathlib import Path
from shutil import copyfile

import numpy as np
import torch
from torch import Tensor, nn

from remem.codecs.table import RAW
from remem.errors import DamagedFileError, InputError
from remem.estimator.build import HEADER_BYTES
from remem.estimator.episode import KEY_BYTES, Record
from remem.estimator.stream import Stream
from remem.policies.table import policy_folder, split_policy
from remem.runs.config import validate
from remem.runs.model import FILE, MEANS, SCALE
from remem.storage.atomic import write_atomically
from remem.storage.tensorfile import Snapshot, digest, encode_snapshot, load_snapshot, save_snapshot
from remem.types import Json

EXEMPLARS, POLICY = "exemplars.safetensors", "policy"
NETWORK, MEMORY, CODES = "network/", "memory/", "codes/"  # parts of an episode's snapshot
FORMAT = 1
_ROWS = ("rows", "freed")


def save_stream(folder: Path, stream: Stream) -> None:
    """Writes a stream into an empty folder. The file of samples is never larger than a budget in bytes."""
    model, exemplars = pack(stream)
    content = encode_snapshot(exemplars)
    data = sum(value.numel() * value.element_size() for value in exemplars.tensors.values())
    if len(content) - data > HEADER_BYTES:
        raise RuntimeError(f"the head of {EXEMPLARS} takes {len(content) - data} bytes, more than {HEADER_BYTES}")
    write_atomically(folder / EXEMPLARS, content)
    save_snapshot(folder / FILE, model)
    base, _ = split_policy(stream.config.policy)
    if (source := policy_folder(base)) is not None:  # a policy of the user's own travels with the model
        (folder / POLICY).mkdir()
        for file in sorted(source.glob("policy.*")):
            copyfile(file, folder / POLICY / file.name)


def load_stream(folder: Path, *, module: nn.Module | None = None) -> Stream:
    """Loads a stream from the folder of `save_stream`. Runs no stored code."""
    model = load_snapshot(folder / FILE, what="model")
    exemplars = load_snapshot(folder / EXEMPLARS, what="file of exemplars")
    if "stream" not in model.facts:
        raise InputError(f"{folder / FILE}: the model of a run; expected one that `remem update` or `save` has made")
    if model.facts["stream"].get("exemplars") != snapshot_digest(exemplars):
        raise DamagedFileError(f"{folder / EXEMPLARS}: not the samples of the model beside it")
    try:
        return unpack(model, exemplars, folder, module)
    except (LookupError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise DamagedFileError(f"{folder}: not a whole model ({first})") from error


def pack(stream: Stream) -> tuple[Snapshot, Snapshot]:
    """The model and its samples. Equal streams give equal files."""
    episode, means = stream.episode, stream.model().class_means
    snapshot = episode.snapshot()
    rows = snapshot.tensors["memory/rows"].tolist()
    records = [episode.records[row] for row in rows]
    samples: dict[str, Tensor] = {
        "keys": torch.tensor([list(record.key) for record in records], dtype=torch.uint8).reshape(-1, KEY_BYTES),
        "updates": torch.tensor([record.update for record in records], dtype=torch.int32),
    }
    samples |= {name: value for name, value in snapshot.tensors.items() if name.startswith(CODES)}
    if episode.codec == RAW:
        owned = episode.bank.owned()
        samples["values"] = torch.from_numpy(np.stack([owned[row] for row in rows]))
    exemplars = Snapshot({"kind": "exemplars", "codec": episode.codec}, samples)
    config = stream.config
    facts: Json = {
        "config": config.public(),
        "head": stream.prepared.method.readout,
        "class_names": list(map(str, stream.classes)),
        "class_order": list(range(len(stream.classes))),
        "shape": list(stream.shape),
        SCALE: stream.model().scale,
        "stream": {
            "format": FORMAT,
            "config": config.model_dump(mode="json"),
            "classes": list(stream.classes),
            "updates": stream.updates,
            "budget": stream.budget_setting,
            "episode": snapshot.facts | {"next_row": len(rows)},  # rows are numbered anew, in the order of the file
            "memory": {name: value.tolist() for name, value in _part(snapshot, MEMORY).items() if name not in _ROWS},
            "exemplars": snapshot_digest(exemplars),
        },
    }
    network = _part(snapshot, NETWORK) | ({} if means is None else {MEANS: torch.from_numpy(means)})
    return Snapshot(facts, network), exemplars


def _part(snapshot: Snapshot, prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): value for n, value in snapshot.tensors.items() if n.startswith(prefix)}


def unpack(model: Snapshot, exemplars: Snapshot, folder: Path, module: nn.Module | None) -> Stream:
    """The inverse of `pack`."""
    facts, tensors = model.facts["stream"], dict(model.tensors)
    config = validate(facts["config"])
    if (folder / POLICY).is_dir():
        _, codec = split_policy(config.policy)
        own = f"{(folder / POLICY).absolute()}{'' if codec is None else f'@{codec}'}"
        config = config.model_copy(update={"policy": own})
    if config.net.name.startswith("own:") and module is None:
        raise InputError(f"the network is a module of your own ({config.net.name}); expected it as `backbone`")
    config = config.model_copy(update={"memory": config.memory.model_copy(update={"budget": facts["budget"]})})
    stream = Stream(config, module)
    stream.classes, stream.updates = tuple(facts["classes"]), int(facts["updates"])
    stream.open(tuple(map(int, model.facts["shape"])))
    tensors.pop(MEANS, None)
    samples, count = dict(exemplars.tensors), len(exemplars.tensors["updates"])
    numbers, nothing = torch.arange(count), torch.empty(0, dtype=torch.int64)
    restored = {f"{NETWORK}{name}": value for name, value in tensors.items()}
    restored |= {f"{MEMORY}{name}": torch.tensor(value, dtype=torch.int64) for name, value in facts["memory"].items()}
    restored |= {
        "memory/rows": numbers,
        "memory/freed": nothing,
        "evaluated/rows": nothing,
        "evaluated/labels": nothing,
    }
    restored |= {name: value for name, value in samples.items() if name.startswith(CODES)}
    if "values" in samples:
        restored |= {"owned/rows": numbers, "owned/values": samples["values"]}
    keys, updates = samples["keys"].numpy(), samples["updates"].tolist()
    records = {row: Record(keys[row].tobytes(), updates[row]) for row in range(count)}
    stream.restore(Snapshot(facts["episode"], restored), records)
    return stream


def digest_of(stream: Stream) -> str:
    """SHA-256 of everything that a stream stores."""
    return hashlib.sha256("".join(map(snapshot_digest, pack(stream))).encode()).hexdigest()


def snapshot_digest(snapshot: Snapshot) -> str:
    return digest(json.dumps(snapshot.facts, sort_keys=True), snapshot.tensors)
