"""Deletion on request: classes or single samples leave the memory and the model, and a receipt says what went."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from remem.errors import DamagedFileError, InputError
from remem.estimator.account import Label
from remem.estimator.episode import key_of
from remem.estimator.saved import digest_of
from remem.estimator.stream import Stream
from remem.estimator.versions import RECEIPTS, ModelFolder
from remem.events import Emit, ignore
from remem.storage.limits import parse_json
from remem.types import Json

WEIGHTS = "The weights of the network were trained on these samples and may still reflect them; retrain to be sure."
RETRAINED = "The network was trained anew on what is left, so nothing of these samples is in its weights."


@dataclass(frozen=True)
class Receipt:
    """What was deleted, when, and digests of the model before and after."""

    classes: tuple[Label, ...]  # deleted as a whole, also because no sample of them was left
    ids: tuple[str, ...]  # as asked for
    samples: int
    bytes: int  # as they were billed
    when: str  # UTC, ISO 8601
    before: str  # SHA-256 of everything that the model stores
    after: str
    retrained: bool
    remark: str
    checksum: str = field(default="")

    def to_json(self) -> Json:
        return asdict(self)

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> "Receipt":
        """A stored receipt. Raises if it was changed."""
        try:
            lists = {name: tuple(tree[name]) for name in ("classes", "ids")}
            receipt = cls(**{**tree, **lists})
        except (KeyError, TypeError) as error:
            raise DamagedFileError(f"receipt: {error}; expected one that forget has made") from error
        if not receipt.is_intact():
            raise DamagedFileError("receipt: the content does not match its checksum")
        return receipt

    def is_intact(self) -> bool:
        """Whether nothing was changed since it was made."""
        return self.checksum == _checksum(self)

    def fits(self, stream: Stream) -> bool:
        """Whether a model is the very one that the deletion left behind."""
        return self.is_intact() and self.after == digest_of(stream)

    def text(self) -> str:
        whole = f"classes {', '.join(map(str, self.classes))}; " if self.classes else ""
        lines = [
            f"deleted: {whole}{self.samples} samples, {self.bytes} bytes, at {self.when}",
            f"model before: {self.before}",
            f"model after:  {self.after}",
            self.remark,
            f"receipt: {self.checksum}",
        ]
        return "\n".join(lines)


def forget(
    stream: Stream,
    *,
    classes: Iterable[Label] = (),
    ids: Iterable[str] = (),
    retrain: bool = False,
    emit: Emit = ignore,
) -> Receipt:
    """Deletes classes, and samples by the identities they were given with. Unknown ones are an error."""
    wanted, asked = list(classes), tuple(map(str, ids))
    if not wanted and not asked:
        raise InputError("forget: nothing given; expected classes or ids")
    places = sorted({stream.place_of(label) for label in wanted})
    held = stream.episode.held()
    single = _rows_of(stream, asked)
    gone = np.isin(held.rows, single) | np.isin(held.labels, places)
    size, known, before = stream.episode.bytes_of(held.rows[gone]), stream.classes, digest_of(stream)
    stream.delete(places, single, retrain=retrain, emit=emit)
    receipt = Receipt(
        classes=tuple(label for label in known if label not in stream.classes),
        ids=asked,
        samples=int(gone.sum()),
        bytes=size,
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        before=before,
        after=digest_of(stream),
        retrained=retrain,
        remark=RETRAINED if retrain else WEIGHTS,
    )
    return Receipt(**{**receipt.__dict__, "checksum": _checksum(receipt)})


def read_receipts(folder: Path) -> list[Receipt]:
    """All receipts, the oldest first. Raises at the first one that is damaged or was changed."""
    path = folder / RECEIPTS
    lines = ModelFolder(folder).receipts().splitlines() or ([b""] if path.exists() else [])
    receipts = []
    for number, line in enumerate(lines, start=1):
        try:
            receipts.append(Receipt.from_json(parse_json(line)))
        except ValueError as error:
            raise DamagedFileError(f"{path}: line {number} is not a whole receipt ({error})") from error
    return receipts


def _rows_of(stream: Stream, ids: Iterable[str]) -> Any:
    """The rows of these identities. A key in hex, as `memory` prints it, is one as well."""
    rows: dict[bytes, list[int]] = {}
    for row, record in stream.episode.records.items():
        rows.setdefault(record.key, []).append(row)
    found: list[int] = []
    for identity in ids:
        own = rows.get(key_of(identity)) or rows.get(_as_key(identity))
        if not own:
            raise InputError(f"id: {identity} is not held; nothing was deleted")
        found += own
    return np.array(found, np.int64)


def _as_key(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def _checksum(receipt: Receipt) -> str:
    facts = {name: value for name, value in asdict(receipt).items() if name != "checksum"}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
