"""Settings that have been renamed. Older configs are read under both names and written under the new one."""

from collections.abc import Mapping
from typing import Any

from remem.errors import InputError
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
