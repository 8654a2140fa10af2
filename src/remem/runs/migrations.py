"""Migration of older files: renamed settings, and work folders, checkpoints and models of format 1."""

from collections.abc import Mapping
from typing import Any

from remem.errors import InputError
from remem.storage.tensorfile import Snapshot
from remem.types import Json

RENAMED = {  # old name -> current name
    "train.rate": "train.lr",
    "train.rate_later": "train.lr_later",
    "finetune.rate_factor": "finetune.lr_factor",
    "method.refine_rate": "method.refine_lr",
    "method.inner_rate": "method.inner_lr",
    "method.mixture_rate": "method.mixture_lr",
    "learn.rate_eta": "learn.lr_eta",
    "learn.rate_phi": "learn.lr_phi",
}


def current_names(tree: Mapping[str, Any]) -> Json:
    """Renames settings to their current names. Raises if a setting is given under both names."""
    result = {key: dict(value) if isinstance(value, Mapping) else value for key, value in tree.items()}
    for old, new in RENAMED.items():
        section, old_key = old.split(".")
        settings = result.get(section)
        if not isinstance(settings, dict) or old_key not in settings:
            continue
        new_key = new.split(".")[1]
        if new_key in settings:
            raise InputError(f"{old}: given together with {new}; {new} is the present name, expected one of the two")
        settings[new_key] = settings.pop(old_key)
    return result


def migrate_run(document: Json) -> Json:
    """Migrates a `config.json` of format 1."""
    fingerprints = {"data": str(document["data_fingerprint"])}
    return {"format": 2, "settings": current_names(document["config"]), "fingerprints": fingerprints}


def migrate_checkpoint(snapshot: Snapshot) -> Snapshot:
    """Migrates a checkpoint of format 1: settings are renamed, and `judged` becomes `evaluated`."""
    facts = dict(snapshot.facts)
    facts["config"] = current_names(facts["config"])
    facts["episode"] = {("evaluated" if k == "judged" else k): v for k, v in facts["episode"].items()}
    tensors = {name.replace("judged/", "evaluated/", 1): value for name, value in snapshot.tensors.items()}
    return Snapshot(facts, tensors)


def migrate_model(snapshot: Snapshot) -> Snapshot:
    """Migrates a model of format 1."""
    return Snapshot({**snapshot.facts, "config": current_names(snapshot.facts["config"])}, snapshot.tensors)
