"""Names and paths in settings, checked before torch is imported: a typo is refused at once."""

from remem.codecs.table import parse_codecs
from remem.data.datasets import require_dataset
from remem.data.orders import require_order
from remem.nets.backbones import BACKBONES
from remem.policies.table import require_policy
from remem.runs.config import RunConfig
from remem.selection.ranking import SELECTIONS


def check_names(config: RunConfig, *, policy: bool = True) -> None:
    """Raises for what no registry knows and for data that are not there. `policy`: whether the policy counts."""
    if policy:
        require_policy(config.policy)
    require_order(config.scenario.order)
    SELECTIONS.require(config.memory.selection)
    parse_codecs(config.memory.codec)
    if config.net.name != "auto":
        BACKBONES.require(config.net.name)
    require_dataset(config.data)
