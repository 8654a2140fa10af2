"""Builds the parts of a stream from its settings and the shape of its first samples."""

from collections.abc import Sequence

import numpy as np
from torch import nn

from remem.codecs.table import CODECS
from remem.data.arrays import default_preprocessing
from remem.data.scenario import Scenario
from remem.errors import InputError
from remem.estimator.episode import RECORD_BYTES, StreamBank, StreamEpisode
from remem.events import Emit
from remem.memory.budget import EXEMPLARS_PER_CLASS, Budget, BudgetSpec, Sizes, parse_budget
from remem.methods.method import Method
from remem.nets.settings import NetSettings
from remem.runs.build import (
    build_method,
    ladder_of,
    name_policy,
    network_builder,
    open_learner,
    own_name,
    pin_policy,
    resolve_config,
)
from remem.runs.config import RunConfig, with_absolute_paths
from remem.runs.devices import open_fabric
from remem.runs.prepared import Prepared
from remem.seeding import Streams
from remem.types import IntArray

NAME = "stream"  # of the data set in a stream's settings
DEFAULT_BUDGET = 2000
HEADER_BYTES = 1024  # of a budget in bytes, for the head of the file that holds the samples
MEASURED = 2048  # samples that are encoded for a mean size


def stream_method(config: RunConfig) -> Method:
    """The method of a stream, which must keep exemplars within a budget."""
    method = build_method(config.method)
    if method.replay != "budget":
        kept = "all data" if method.replay == "all" else "no exemplars"
        raise InputError(
            f"method: {config.method.name} keeps {kept}; expected a method with exemplars, such as icarl or lucir"
        )
    return method


def prepare_stream(config: RunConfig, shape: tuple[int, ...], module: nn.Module | None) -> Prepared:
    """Resolves and checks all settings of a stream of samples of this shape."""
    config, notes = name_policy(config, None)
    config, policy = pin_policy(config, None)
    bank = StreamBank(shape)
    scenario = Scenario(
        name=NAME,
        bank=bank,
        eval_bank=bank,
        phases=(),
        class_order=(),
        class_names=(),
        preprocessing=default_preprocessing(shape),
        fingerprint=NAME,
        settings=config.scenario,
        data=config.data,
    )
    ladder = ladder_of(config.memory.codec, policy, bank)
    budget = stream_budget(budget_spec(config), config.memory.exemplars, 0, sizes_of(bank, np.empty(0, int), ladder))
    if module is not None:
        config = config.model_copy(update={"net": NetSettings(name=own_name(module))})
    # The budget stays as the user wrote it: what is resolved here moves with the stream.
    resolved = resolve_config(with_absolute_paths(config), scenario, budget, ladder)
    resolved = resolved.model_copy(update={"memory": config.memory.model_copy(update={"codec": ",".join(ladder)})})
    prepared = Prepared(resolved, scenario, budget, stream_method(config), policy, module, notes, ladder)
    network_builder(prepared)(0)  # raises if the backbone does not fit the samples
    return prepared


def open_stream_episode(prepared: Prepared, emit: Emit, *, keeps_backbone: bool = False) -> StreamEpisode:
    """An episode before its first phase. Streams of random numbers are those of a run with the same seed."""
    streams, fabric = Streams(prepared.config.seed), open_fabric(prepared.config.train)
    learner = open_learner(prepared, fabric, streams, emit, keeps_backbone=keeps_backbone)
    bank = StreamBank(prepared.scenario.bank.shape)
    return StreamEpisode(bank, learner, prepared.budget, streams, prepared.ladder)


def budget_spec(config: RunConfig) -> BudgetSpec:
    spec = parse_budget(DEFAULT_BUDGET if config.memory.budget is None else config.memory.budget)
    assert spec is not None
    return spec


def stream_budget(spec: BudgetSpec, exemplars: int | None, classes: int, sizes: Sizes) -> Budget:
    """The budget while so many classes are known. By default `static` keeps 20 samples for each of them."""
    if spec.kind == "growing":
        return Budget("growing", spec.amount)
    part = EXEMPLARS_PER_CLASS * classes if exemplars is None else exemplars
    if spec.kind == "fixed":
        if len(sizes) > 1:
            raise InputError(
                f"budget: {spec.amount} samples given, but several codecs to choose from; expected bytes, 2MB"
            )
        return Budget("fixed", spec.amount, part)
    return Budget("bytes", max(1, spec.amount - HEADER_BYTES), part, sizes)


def sizes_of(bank: StreamBank, rows: IntArray, ladder: Sequence[str]) -> Sizes:
    """Bytes of one sample at every rung: of each, or on average over what is held and what arrives."""

    def size(codec: str) -> int:
        fixed = CODECS[codec].size(bank.stored_shape)
        if fixed is not None:
            return fixed + RECORD_BYTES
        if not len(rows):
            return RECORD_BYTES + 1
        return int(np.ceil(bank.measure(rows[:: -(-len(rows) // MEASURED)], codec).mean()))

    return tuple((size(codec),) for codec in ladder)
