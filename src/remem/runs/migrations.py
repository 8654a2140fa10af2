"""Migrations of work folders, checkpoints and models of format 1."""

from remem.errors import InputError
from remem.runs.renamed import current_names
from remem.storage.tensorfile import Snapshot
from remem.types import Json

CHANGED = ("mnemonics", "icarl-aanets", "lucir-aanets", "pod-aanets")  # methods that trained differently then
RETIRED = ("temperature", "weight")  # settings of the mnemonics of that time


def migrate_run(document: Json) -> Json:
    """Migrates a `config.json` of format 1. Raises for methods whose runs cannot be continued as they began."""
    method = document["config"]["method"]["name"]
    if method in CHANGED:
        raise InputError(
            f"method: {method} trained differently when this run began, so it cannot be resumed; "
            "expected a new run (its results and its model can still be read)"
        )
    fingerprints = {"data": str(document["data_fingerprint"])}
    return {"format": 2, "settings": current_names(document["config"]), "fingerprints": fingerprints}


def migrate_checkpoint(snapshot: Snapshot) -> Snapshot:
    """A run's checkpoint: the episode, the settings and the phases so far."""
    episode = migrate_episode(Snapshot(snapshot.facts["episode"], snapshot.tensors))
    facts = {**snapshot.facts, "episode": episode.facts, "config": current_names(snapshot.facts["config"])}
    return Snapshot(facts, episode.tensors)


def migrate_episode(snapshot: Snapshot) -> Snapshot:
    """An episode: evaluation used to be called judging."""
    facts = {("evaluated" if name == "judged" else name): value for name, value in snapshot.facts.items()}
    tensors = {name.replace("judged/", "evaluated/", 1): value for name, value in snapshot.tensors.items()}
    return Snapshot(facts, tensors)


def migrate_model(snapshot: Snapshot) -> Snapshot:
    """Migrates a model of format 1."""
    config = current_names(snapshot.facts["config"])
    if config["method"]["name"] == "mnemonics":
        config["method"] = {key: value for key, value in config["method"].items() if key not in RETIRED}
    return Snapshot({**snapshot.facts, "config": config}, snapshot.tensors)
