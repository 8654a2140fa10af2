"""Settings of a stream: given with its first update, and the same ever after."""

from collections.abc import Iterator, Mapping
from typing import Any

from remem.errors import InputError
from remem.estimator.build import NAME, prepare_stream
from remem.estimator.stream import Stream
from remem.memory.budget import parse_budget
from remem.runs.config import NO_EFFECT, RunConfig, compose, validate
from remem.runs.renamed import current_names
from remem.runs.trees import merged, value_at

BUDGET = "memory.budget"  # may change at any time


def stream_config(given: Mapping[str, Any]) -> RunConfig:
    """The settings of a new stream."""
    return compose({"data": {"name": NAME}}, given)


def require_same_settings(stream: Stream, given: Mapping[str, Any], where: str) -> RunConfig:
    """Raises if a setting is given that the stream was not made with, except its budget and where data are read.

    What is given is resolved as at the beginning, so that the same command can be used again: `auto` is the same as
    what it was resolved to. Returns the settings with what may change.
    """
    tree = merged(stream.config.model_dump(mode="json"), {**current_names(given), "policy_sha256": None})
    now = prepare_stream(validate(tree), stream.shape, None).config
    before, after = (config.model_dump(mode="json") for config in (stream.config, now))
    for key in _leaves(current_names(given)):
        old, new = value_at(before, key, None), value_at(after, key, None)
        if (
            key not in (*NO_EFFECT, BUDGET)
            and old != new
            and not (key == "policy" and _same_policy(stream.config, now))
        ):
            raise InputError(
                f"{key}: {new!r} given, but {where} was made with {old!r}; settings of a model cannot change"
            )
    return now


def _same_policy(before: RunConfig, now: RunConfig) -> bool:
    """Whether the files of two learned policies are equal: a policy folder travels with the model."""
    return now.policy_sha256 is not None and now.policy_sha256 == before.policy_sha256


def change_budget(stream: Stream, given: Mapping[str, Any]) -> bool:
    """Sets the budget if one is given that the stream does not have; whether it was changed."""
    budget = value_at(given, BUDGET, None)
    if budget is None or parse_budget(budget) == parse_budget(stream.budget_setting):
        return False
    stream.set_budget(budget)
    return True


def _leaves(tree: Mapping[str, Any], key: str = "") -> Iterator[str]:
    for name, value in tree.items():
        whole = f"{key}.{name}" if key else name
        if isinstance(value, Mapping):
            yield from _leaves(value, whole)
        else:
            yield whole
