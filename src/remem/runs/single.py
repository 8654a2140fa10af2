"""One run from phase 0 to the last: the loop over phases, and a run in memory. Folders are in folder.py."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from lightning_fabric import Fabric

from remem.data.scenario import Scenario
from remem.episode import Episode
from remem.methods.loop import Report
from remem.policies.policy import Policy
from remem.runs.build import Prepared, open_episode, open_fabric
from remem.runs.results import RunResult, phase_entry, summarise
from remem.types import PhaseResult


def silent(event: Mapping[str, Any]) -> None:
    """A report that nobody reads."""


def run(prepared: Prepared, report: Report = silent) -> RunResult:
    """A run in memory: nothing is written."""
    fabric = open_fabric(prepared.config.train)
    result: RunResult = fabric.launch(partial(_run_in_memory, prepared=prepared, report=report))
    return result


def _run_in_memory(fabric: Fabric, prepared: Prepared, report: Report) -> RunResult:
    told = report if fabric.is_global_zero else silent
    episode = open_episode(prepared, fabric, told)
    entries = [phase_entry(result) for result in phases(episode, prepared, told)]
    return summarise(public_facts(prepared), entries, peak=episode.samples_peak, complete=True)


def phases(episode: Episode, prepared: Prepared, report: Report) -> Iterator[PhaseResult]:
    """The phases that are left, one after another: observe, act, advance."""
    for phase in prepared.scenario.phases[episode.next_phase :]:
        report({"event": "phase", "phase": phase.index, "classes": len(phase.classes)})
        started = time.perf_counter()
        action = prepared.policy.act(episode.observe(phase)) if phase.index else None
        acting = time.perf_counter() - started
        result = episode.advance(phase, action)
        result = replace(result, seconds={**result.seconds, "policy": result.seconds["policy"] + acting})
        report({"event": "judged", "phase": phase.index, "accuracy": result.accuracy})
        yield result


def public_facts(prepared: Prepared) -> dict[str, Any]:
    """What `result.json` says of a run besides its numbers."""
    scenario, method, policy = prepared.scenario, prepared.method, prepared.policy
    keeps_all = method.regime == "all"
    return {
        "config": prepared.config.public(),
        "head": method.readout,
        "oracle": policy.oracle or keeps_all,
        "policy_saw_classes": saw_classes(policy, scenario, prepared.config.public()["data"]["name"]),
        "policy": policy.provenance(),
        "data_fingerprint": scenario.fingerprint,
        "class_order": list(scenario.class_order),
        "class_names": list(scenario.class_names),
    }


def saw_classes(policy: Policy, scenario: Scenario, data_name: str) -> bool:
    """Whether the policy was learned on classes that arrive after phase 0 (protocol 3); images of any size are them."""
    source = policy.provenance().get("source")
    if not isinstance(source, Mapping) or source.get("data") != data_name:
        return False
    later = scenario.class_names[len(scenario.phases[0].classes) :]
    return not set(later).isdisjoint(source.get("classes", ()))
