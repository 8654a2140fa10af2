"""Policy folders: `policy.json` and, for learned policies, `policy.safetensors`. Loading runs no code."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, field_validator, model_validator
from safetensors import SafetensorError
from safetensors.torch import load, save

from remem import __version__
from remem.errors import DamagedFileError, InputError, is_damage
from remem.policies.fixed import Fixed
from remem.policies.learned import Core, Learned
from remem.policies.path import FixedPath
from remem.policies.rmm import PolicySettings, TwoLevelPolicy
from remem.policies.rmm_codec import ThreeLevelPolicy
from remem.storage.atomic import part_of, sync, sync_folder
from remem.storage.jsonfile import encode, read_json, seal
from remem.types import Json

FORMAT = 1
FACTS, WEIGHTS = "policy.json", "policy.safetensors"
# Set by `save_policy` itself.
COMPUTED = (
    "format",
    "kind",
    "levels",
    "hidden",
    "old_tenths",
    "path",
    "codecs",
    "codec",
    "sha256",
    "sampled",
)
WIDEST = 4096  # hidden units; a file must not cause a larger allocation than it holds
MOST_RUNGS = 100  # of a ladder
LONGEST = 10_000  # phases of a path
Tenths = Annotated[int, Field(ge=1, le=9)]


class Source(BaseModel):
    """What a policy was learned on: phase 0 of a data set, a target as a whole (an oracle), or another data set."""

    model_config = ConfigDict(frozen=True, extra="allow")

    kind: Literal["phase0", "target", "dataset"]
    data: str  # the public name, without any path
    classes: tuple[str, ...]
    order: str | None
    phases: tuple[int, ...]
    budget: Any


class Facts(BaseModel):
    """The fields of `policy.json` that every policy has; others are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")

    format: Literal[1]
    remem: str
    name: str = Field(min_length=1, max_length=100)
    oracle: bool
    source: Source | None  # None: it has learned nothing
    method: Json
    settings: Json
    seed: int
    rewards: tuple[FiniteFloat, ...]  # mean total reward of every epoch

    @field_validator("name")
    @classmethod
    def _can_be_shown(cls, name: str) -> str:
        if not name.isprintable():
            raise ValueError("must be printable")
        return name

    @model_validator(mode="after")
    def _owns_up(self) -> "Facts":
        if self.source is not None and self.source.kind == "target" and not self.oracle:
            raise ValueError("learned on the target itself, so 'oracle' must be true")
        return self


class TwoLevelFacts(Facts):
    """Facts of a `TwoLevelPolicy`."""

    kind: Literal["two-level"]
    levels: Literal[1, 2]
    hidden: Annotated[int, Field(ge=1, le=WIDEST)]
    sha256: str  # of the bytes of `policy.safetensors`


class ThreeLevelFacts(Facts):
    """Facts of a `ThreeLevelPolicy` and the ladder of codecs that its rungs are."""

    kind: Literal["three-level"]
    levels: Literal[3]
    hidden: Annotated[int, Field(ge=1, le=WIDEST)]
    codecs: Annotated[tuple[str, ...], Field(min_length=2, max_length=MOST_RUNGS)]
    sha256: str


class FixedFacts(Facts):
    """Facts of one old share for all phases, chosen on some data; it has no weights."""

    kind: Literal["fixed"]
    old_tenths: Tenths


class FixedCodecFacts(Facts):
    """Facts of one old share and one codec for all phases, chosen on some data."""

    kind: Literal["fixed-codec"]
    old_tenths: Tenths
    codec: str


class PathFacts(Facts):
    """Facts of one action for every phase, found by a search; it has no weights."""

    kind: Literal["path"]
    path: Annotated[tuple[tuple[Tenths, Tenths], ...], Field(min_length=1, max_length=LONGEST)]


AnyFacts = TwoLevelFacts | ThreeLevelFacts | FixedFacts | FixedCodecFacts | PathFacts
KINDS: dict[object, type[AnyFacts]] = {
    "two-level": TwoLevelFacts,
    "three-level": ThreeLevelFacts,
    "fixed": FixedFacts,
    "fixed-codec": FixedCodecFacts,
    "path": PathFacts,
}


def save_policy(folder: Path, policy: Core, provenance: Mapping[str, Any], *, codecs: tuple[str, ...] = ()) -> None:
    """Writes a policy; if the process is killed, the folder holds a whole policy or none.

    `codecs` is the ladder of a three-level policy, or the codec of a fixed share that was chosen with it.

    `provenance` has name, oracle, source, method, settings, seed, rewards and anything else worth keeping. The
    provenance of a loaded policy is accepted as it is.
    """
    tree = {"remem": __version__, **{key: value for key, value in provenance.items() if key not in COMPUTED}}
    content: dict[str, bytes] = {}
    known = provenance.get("codecs") or ([provenance["codec"]] if "codec" in provenance else [])
    codecs = codecs or tuple(known)
    if isinstance(policy, Fixed):
        own: Json = {"kind": "fixed", "old_tenths": policy.old_tenths}
        if codecs:
            own |= {"kind": "fixed-codec", "codec": codecs[0]}
    elif isinstance(policy, FixedPath):
        own = {"kind": "path", "path": [action.key() for action in policy.actions]}
    else:
        content[WEIGHTS] = save({name: value.float().contiguous() for name, value in policy.state_dict().items()})
        own = {"kind": "two-level", "levels": policy.settings.levels, "hidden": policy.settings.hidden}
        if isinstance(policy, ThreeLevelPolicy):
            own |= {"kind": "three-level", "codecs": list(codecs)}
        own["sha256"] = hashlib.sha256(content[WEIGHTS]).hexdigest()
    try:
        facts = _validate({"format": FORMAT, **tree, **own}).model_dump(mode="json")
        content[FACTS] = encode(seal({key: facts[key] for key in sorted(facts)}))
    except ValidationError as error:
        raise InputError(f"policy: {_first(error)}") from error
    try:
        _write(folder, content)
    except OSError as error:
        raise InputError(f"{folder}: the policy cannot be written ({error.strerror})") from error


def load_policy(folder: Path) -> Learned:
    """The policy as it was saved; DamagedFileError if the folder is missing, damaged or of another kind."""
    facts = _read_facts(folder)
    if isinstance(facts, FixedFacts | FixedCodecFacts):
        core: Core = Fixed(facts.old_tenths, facts.oracle)
    elif isinstance(facts, PathFacts):
        core = FixedPath.from_keys(facts.path, oracle=facts.oracle)
    else:
        core = _read_network(folder, facts)
    return Learned(core, facts.model_dump(mode="json"))


def _validate(tree: Mapping[str, Any]) -> AnyFacts:
    return KINDS.get(tree.get("kind"), TwoLevelFacts).model_validate(tree)


def _read_facts(folder: Path) -> AnyFacts:
    path = folder / FACTS
    if not path.exists():
        what = f"no {FACTS} in it" if folder.is_dir() else "no such folder"
        raise DamagedFileError(f"{folder}: {what}; expected the folder of a policy")
    tree = read_json(path, "facts of a policy", format=FORMAT)
    try:
        return _validate(tree)
    except ValidationError as error:
        raise DamagedFileError(f"{path}: {_first(error)}") from error


def _read_network(folder: Path, facts: TwoLevelFacts | ThreeLevelFacts) -> TwoLevelPolicy | ThreeLevelPolicy:
    path = folder / WEIGHTS
    try:
        content = path.read_bytes()
    except OSError as error:
        if not is_damage(error):
            raise
        raise DamagedFileError(f"{path}: cannot be read ({error.strerror})") from error
    if hashlib.sha256(content).hexdigest() != facts.sha256:
        raise DamagedFileError(f"{path}: does not match its checksum in {FACTS}; the policy is damaged")
    try:
        weights = load(content)
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise DamagedFileError(f"{path}: not a safetensors file ({error})") from error
    shape = PolicySettings(hidden=facts.hidden, levels=facts.levels)
    network: TwoLevelPolicy | ThreeLevelPolicy
    if isinstance(facts, ThreeLevelFacts):
        network = ThreeLevelPolicy(len(facts.codecs), shape)
    else:
        network = TwoLevelPolicy(shape)
    expected = {name: (value.dtype, value.shape) for name, value in network.state_dict().items()}
    if {name: (value.dtype, value.shape) for name, value in weights.items()} != expected:
        raise DamagedFileError(f"{path}: not the weights of a {facts.kind} policy with {facts.hidden} hidden units")
    if not all(value.isfinite().all() for value in weights.values()):
        raise DamagedFileError(f"{path}: holds weights that are not finite")
    network.load_state_dict(weights)
    return network.requires_grad_(False)


def _write(folder: Path, content: Mapping[str, bytes]) -> None:
    """Replaces a policy once the new one is on disk.

    The facts go first and come last: a folder without them holds no policy, so old and new parts never mix.
    """
    folder.mkdir(parents=True, exist_ok=True)
    parts = {name: part_of(folder / name) for name in content}
    try:
        for name, part in parts.items():
            with open(part, "wb") as file:
                file.write(content[name])
                file.flush()
                sync(file.fileno())
        for name in (FACTS, WEIGHTS):
            (folder / name).unlink(missing_ok=True)
        for name, part in parts.items():
            part.replace(folder / name)
        sync_folder(folder)
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


def _first(error: ValidationError) -> str:
    """The first thing wrong, in one line."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"'{where}': {first['msg']}" if where else str(first["msg"])
