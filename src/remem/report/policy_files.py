"""The policies behind runs and studies: learned ones in policy folders, and those that ship with remem."""

from collections.abc import Sequence
from pathlib import Path

from remem.errors import InputError
from remem.policies.learned import Learned
from remem.policies.policy import Policy
from remem.policies.table import POLICIES, resolve_policy
from remem.report.inputs import result_files
from remem.runs.results import RunResult, load_result

FILE = "policy.json"


def find_policies(paths: Sequence[Path]) -> dict[str, Policy]:
    """Policies by name or path: of policy folders, of study folders, and of runs whose policy ships with remem."""
    found: dict[str, Policy] = {}
    for path in paths:
        folders = [file.parent for file in sorted(path.rglob(FILE))] if path.is_dir() else []
        for folder in folders:
            found[str(folder)] = resolve_policy(str(folder), seed=0)
        if not folders:
            for file in result_files(path):
                run = load_result(file)
                policy = shipped_policy(run)
                if policy is not None:
                    found[run.policy_name] = policy
    return found


def shipped_policy(run: RunResult) -> Policy | None:
    """The policy of a run, if it ships with remem and is still the same."""
    if run.policy_name not in POLICIES or "sha256" not in run.policy:
        return None
    policy = resolve_policy(run.policy_name, seed=0)
    same = isinstance(policy, Learned) and policy.provenance().get("sha256") == run.policy["sha256"]
    return policy if same else None


def one_policy(paths: Sequence[Path]) -> Policy:
    """The only learned policy behind these runs; raises if there is none, or a choice."""
    found = find_policies(paths)
    if not found:
        raise InputError(f"{paths[0]}: no learned policy; expected a policy folder, or a run or study with one")
    if len(found) > 1:
        raise InputError(f"{len(found)} policies given; expected one of {', '.join(found)}")
    return next(iter(found.values()))
