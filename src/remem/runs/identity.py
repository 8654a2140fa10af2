"""Whether files belong together: the result, the settings and the model of one run say which run they are of."""

from pathlib import Path
from typing import Any

from remem.errors import DamagedFileError, InputError
from remem.runs.config import NO_EFFECT, RunConfig, validate
from remem.runs.results import RunResult
from remem.storage.jsonfile import differences

# Settings that are decided when a run begins, so that a plan does not know them yet.
DECIDED = ("train.device", "train.strategy", "train.precision", "train.threads", "augment", "net.name", "memory")
ELSEWHERE = (*NO_EFFECT, "policy", "policy_sha256")  # policies are compared by their names


def require_own_result(path: Path, result: RunResult, config: RunConfig, fingerprint: str) -> None:
    """Raises if a result is not of the run with these settings and data."""
    try:
        theirs = validate(result.config).public()
    except InputError:  # settings that this version no longer knows; nothing can be said
        return
    found = next(differences(config.public(), theirs), None)
    if found is None and fingerprint and result.data_fingerprint != fingerprint:
        found = ("the data", fingerprint[:12], result.data_fingerprint[:12])
    if found is not None:
        raise foreign(path, "result", found)


def require_planned(path: Path, planned: RunConfig, begun: RunConfig, policy: str) -> None:
    """Raises if a folder's run is not the one that a study planned for it; `policy` is the end of its path or name."""
    one, other = (config.model_dump(mode="json") for config in (planned, begun))
    for key, old, new in differences(one, other):
        if not key.startswith((*DECIDED, *ELSEWHERE)):
            raise foreign(path, "settings", (key, old, new))
    if not f"/{begun.policy}".endswith(f"/{policy}"):
        raise foreign(path, "settings", ("policy", policy, begun.policy))


def foreign(path: Path, what: str, found: tuple[str, Any, Any]) -> DamagedFileError:
    key, expected, given = found
    return DamagedFileError(
        f"{path}: the {what} of another run ({key} is {given!r}, expected {expected!r}); put the right file back, or "
        f"move {path.parent} away and train again"
    )
