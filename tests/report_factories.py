"""Factories for results of runs and studies that never happened, for tests of numbers, tables and pages."""

from collections.abc import Mapping, Sequence
from typing import Any

from remem.runs.results import ActionRecord, PhaseRecord, RunFacts, RunResult
from remem.studies.grid import Study, plan_study

THREE_SEEDS = {
    "static_seed-0": [0.8, 0.4],  # averages 0.60, 0.62, 0.64: mean 0.62, deviation 0.02
    "static_seed-1": [0.8, 0.44],
    "static_seed-2": [0.8, 0.48],
    "fixed-0.6_seed-0": [0.8, 0.5],  # averages 0.65, 0.67, 0.72: differences 0.05, 0.05, 0.08
    "fixed-0.6_seed-1": [0.8, 0.54],
    "fixed-0.6_seed-2": [0.8, 0.64],
}


def make_run(
    method: str,
    policy: str,
    accuracies: Sequence[float],
    /,
    *,
    seed: int = 0,
    oracle: bool = False,
    decides: bool = True,
    complete: bool = True,
    **settings: Any,
) -> RunResult:
    """Four classes first and two more in every phase; from phase 1 on 10 old and 30 new samples are held.

    `settings` are sections of the config, merged into those that every run has.
    """
    scenario = {"phases": max(len(accuracies) - 1, 1), "order": "seed:0", "validation": 0.0}
    sections: dict[str, dict[str, Any]] = {"method": {"name": method}, "data": {"name": "glyphs"}, "scenario": scenario}
    for section, values in settings.items():
        sections[section] = sections.get(section, {}) | values
    config = {"seed": seed, "policy": policy, **sections}
    names = [f"class {index}" for index in range(2 + 2 * len(accuracies))]
    facts = RunFacts(
        config=config,
        head="cnn",
        oracle=oracle,
        policy_saw_classes=False,
        policy={"name": policy},
        memory="M = 40 samples, not the paper's 92",
        data_fingerprint="",
        class_order=tuple(range(len(names))),
        class_names=tuple(names),
    )
    phases = [_phase(index, accuracies, decides) for index in range(len(accuracies))]
    return RunResult.of(facts, phases, peak=40 if phases[1:] else 0, complete=complete)


def _phase(index: int, accuracies: Sequence[float], decides: bool) -> PhaseRecord:
    accuracy = accuracies[index]
    decision = ActionRecord(old_share=0.25, level1=None, level2=None, clamped=False)
    return PhaseRecord(
        phase=index,
        classes_seen=4 + 2 * index,
        accuracy=accuracy,
        accuracy_cnn=accuracy - 0.1,
        accuracy_nme=accuracy,
        accuracy_by_phase=(accuracy,) * (index + 1),
        accuracy_old=accuracy if index else None,
        accuracy_new=accuracy,
        accuracy_per_class={str(label): accuracy for label in range(4 + 2 * index)},
        action=decision if index and decides else None,
        budget=40 if index else None,
        held_old=10 if index else 0,
        held_new=30 if index else 100,
        held_per_class={},
        seconds={},
    )


def with_codecs(run: RunResult, codecs: Sequence[str], sizes: Mapping[str, int]) -> RunResult:
    """The run with these codecs in phases 1, 2, ..., and samples of these sizes."""
    first, *later = run.phases
    coded = [
        phase.model_copy(update={"codec": codec, "held_bytes": sizes[codec] * (phase.held_old + phase.held_new)})
        for phase, codec in zip(later, codecs, strict=True)
    ]
    return run.model_copy(update={"phases": (first, *coded), "bytes_peak": max(p.held_bytes or 0 for p in coded)})


def make_study(**axes: Any) -> Study:
    """A study on digits that compares `static` and `fixed-0.6`, unless the axes say otherwise."""
    return plan_study({"data": {"name": "digits"}, "study": {"policies": ["static", "fixed-0.6"], **axes}})


def make_results(study: Study, accuracies: Mapping[str, Sequence[float]], **facts: Any) -> dict[str, RunResult]:
    """Results by name of run; `facts` are those of runs with another policy than `static`."""
    results = {}
    for run in study.runs:
        result = make_run("icarl", run.policy, accuracies[run.name], seed=run.config.seed)
        results[run.name] = result if run.policy == "static" else result.model_copy(update=facts)
    return results
