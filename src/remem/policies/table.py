"""The policies by name, and the way from a setting to a policy. Torch is imported only for learned ones."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from remem.codecs.table import parse_codecs
from remem.errors import DamagedFileError, InputError
from remem.policies.auto import AUTO, Choice, Conditions, nearest_policy
from remem.policies.coded import Coded, split_codec
from remem.policies.fixed import Fixed, fixed_meant
from remem.policies.policy import Policy, sampled
from remem.policies.proportional import Proportional
from remem.policies.static import Static
from remem.registry import Registry

if TYPE_CHECKING:
    from remem.policies.learned import Learned

ZOO = Path(__file__).with_name("zoo")  # learned policies that ship, one folder each
FOLDERS = {"rmm": "rmm-glyphs", "rmm-one-level": "rmm-one-level-glyphs"}  # the best on validation data
FOR_AUTO = (  # those that `auto` chooses from; of equally near ones the first
    "rmm-glyphs",
    "rmm-cifar100",
    "rmm-mini-imagenet",
    "rmm-without-finetuning",
)


@dataclass(frozen=True)
class PolicyEntry:
    summary: str
    build: Callable[[], Policy]
    samples: bool = False  # its actions are sampled, with the seed of the run


def resolve_policy(text: str, seed: int, *, sample: bool = False) -> Policy:
    """The policy that a setting names: a registered name or a policy folder, with or without `@CODEC`.

    `seed` is for policies that sample.
    """
    base, codec = split_policy(text)
    if codec is not None:
        return Coded(resolve_policy(base, seed, sample=sample), codec)
    folder = policy_folder(text)
    if folder is not None:
        from remem.policies.files import load_policy

        return sampled(load_policy(folder), seed) if sample else load_policy(folder)
    require_policy(text)
    entry = POLICIES[text]
    return sampled(entry.build(), seed) if sample or entry.samples else entry.build()


def require_policy(text: str) -> None:
    """Raises if a setting names no policy; torch is not imported, and the files of a policy folder are not read."""
    base, codec = split_policy(text)
    if codec is not None:
        parse_codecs(codec)
    if (folder := policy_folder(base)) is not None:
        if not folder.exists():
            raise DamagedFileError(f"{folder}: no such folder; expected the folder of a policy")
        return
    if base not in POLICIES and (meant := fixed_meant(base)) is not None:
        raise InputError(f"policy: no folder '{base}', and no policy named '{base}'; did you mean '{meant}'?")
    try:
        POLICIES.require(base)
    except InputError as error:
        raise InputError(f"policy: no folder '{base}', and {error}") from None


def split_policy(text: str) -> tuple[str, str | None]:
    """The policy and the codec of `fixed-0.7@ycc420-5`. The name of a folder that exists is not split."""
    if os.path.isdir(os.path.expanduser(text)):
        return text, None
    return split_codec(text)


def policy_folder(text: str) -> Path | None:
    """The folder that a setting names, if any. A registered name is not a folder; `./rmm` is one."""
    path = os.path.expanduser(text)
    written_as_path = any(separator in text for separator in (os.sep, os.altsep) if separator)
    return Path(path) if text not in POLICIES and (written_as_path or os.path.isdir(path)) else None


def choose_policy(wanted: Conditions) -> Choice:
    """What `auto` means under these conditions."""
    return nearest_policy(wanted, {name: _shipped(name) for name in FOR_AUTO})


def _shipped(name: str) -> "Learned":
    from remem.policies.files import load_policy

    policy = load_policy(ZOO / FOLDERS.get(name, name))
    return replace(policy, facts={**policy.facts, "name": name})


def _untrained(name: str) -> Policy:
    from remem.policies.learned import untrained

    return untrained(name)


def _random() -> Policy:
    return sampled(_untrained("random"), seed=0)


POLICIES: Registry[PolicyEntry] = Registry("policy")
POLICIES.add("static", PolicyEntry("the conventional scheme: exemplar part E, all other memory for new data", Static))
_summary = "the same memory for every class: the old share is that of the old classes"
POLICIES.add("proportional", PolicyEntry(_summary, Proportional))
for _tenths in range(1, 10):
    _summary = f"{10 * _tenths} % of the memory for old classes in every phase"
    POLICIES.add(f"fixed-0.{_tenths}", PolicyEntry(_summary, partial(Fixed, _tenths)))
for _name, _summary in {
    "rmm": f"two levels: old and new, harder and easier classes; at present {FOLDERS['rmm']}",
    "rmm-one-level": f"one level: old and new classes; at present {FOLDERS['rmm-one-level']}",
    "rmm-without-finetuning": "two levels, for runs without balanced fine-tuning; learned on CIFAR-100",
    "rmm-codec": "three levels: how exactly samples are stored, then as rmm; learned on glyphs; budgets in bytes",
    "rmm-cifar100": "two levels; learned on CIFAR-100",
    "rmm-mini-imagenet": "two levels; learned on the ImageNet subset",
    "rmm-glyphs": "two levels; learned on glyphs",
    "rmm-one-level-cifar100": "one level; learned on CIFAR-100",
    "rmm-one-level-glyphs": "one level; learned on glyphs",
}.items():
    POLICIES.add(_name, PolicyEntry(_summary, partial(_shipped, _name)))
_summary = "the shipped learned policy that fits the data set, the method and the number of phases best"
POLICIES.add(AUTO, PolicyEntry(_summary, partial(_shipped, FOR_AUTO[0])))  # `prepare` replaces it before a run
_summary = "has learned nothing: its most probable action is half the memory for old classes, no change, an even split"
POLICIES.add("rmm-untrained", PolicyEntry(_summary, partial(_untrained, "rmm-untrained")))
POLICIES.add(
    "random",
    PolicyEntry("draws any feasible action on both levels, by the run's seed", _random, samples=True),
)
