"""Builds a run from its settings. Every `auto` is resolved, so that stored settings describe the actual run."""

import hashlib
from collections.abc import Callable

import torch
from lightning_fabric import Fabric

from remem.codecs.table import RAW, parse_codecs, resolve_ladder
from remem.data.augment import plan_for
from remem.data.bank import Bank
from remem.data.datasets import load_dataset
from remem.data.scenario import Scenario, build_scenario
from remem.data.stored_codes import mean_sizes
from remem.episode import Episode
from remem.errors import InputError
from remem.events import Emit
from remem.memory.budget import Budget, PhaseFacts, parse_budget, resolve
from remem.methods.keeping import Keeper
from remem.methods.learner import Learner, LearnerSpec
from remem.methods.loop import TrainContext, check_optimizer
from remem.methods.method import Method
from remem.methods.settings import MethodSettings
from remem.methods.table import METHODS
from remem.nets.backbones import backbone_name
from remem.nets.network import Network, build_network
from remem.nets.settings import NetSettings
from remem.policies.auto import AUTO, Conditions, learned_on
from remem.policies.coded import Coded
from remem.policies.learned import Learned
from remem.policies.policy import ChoosesCodec, Policy, sampled
from remem.policies.table import choose_policy, policy_folder, resolve_policy, split_policy
from remem.runs.config import RunConfig, with_absolute_paths
from remem.runs.devices import limit_threads, resolve_devices
from remem.runs.heap import keep_freed_memory
from remem.runs.prepared import Prepared
from remem.seeding import Streams
from remem.selection.ranking import SELECTIONS


def prepare(
    config: RunConfig,
    *,
    scenario: Scenario | None = None,
    module: torch.nn.Module | None = None,
    policy: Policy | None = None,
) -> Prepared:
    """Builds a run and checks everything that can be checked before training. `policy` may be user-defined."""
    config, notes = name_policy(config, policy)
    config, policy = pin_policy(config, policy)
    SELECTIONS[config.memory.selection]
    method = build_method(config.method)
    check_optimizer(config.train)
    if scenario is None:
        scenario = build_scenario(load_dataset(config.data), config.scenario, config.data)
    facts = [PhaseFacts(len(phase.classes), phase.arriving) for phase in scenario.phases]
    memory, bank = config.memory, scenario.bank
    ladder = ladder_of(memory.codec, policy, bank)
    if memory.codec_phase0 and len(ladder) > 1:
        raise InputError(
            "memory.codec_phase0: true given, but the policy chooses the codec after phase 0; expected false"
        )
    sizes = mean_sizes(bank, scenario.phases, ladder)
    budget = resolve(parse_budget(memory.budget), memory.exemplars, facts, row_bytes=bank.stored_bytes, sizes=sizes)
    if module is not None:
        config = config.model_copy(update={"net": NetSettings(name=own_name(module))})
    config = resolve_config(with_absolute_paths(config), scenario, budget, ladder)
    notes = notes or learned_note(config, policy)
    prepared = Prepared(config, scenario, budget, method, policy, module, notes, ladder)
    network_builder(prepared)(0)  # raises if the backbone does not fit the data
    return prepared


def build_method(settings: MethodSettings) -> Method:
    """Builds a method. What it keeps must be what it is registered for."""
    entry = METHODS[settings.name]
    method = entry.build(settings)
    if method.replay not in entry.replay:
        raise InputError(
            f"method: {settings.name} keeps '{method.replay}' of old samples, but is registered for "
            f"{' or '.join(entry.replay)}; expected MethodEntry(..., replay=('{method.replay}',))"
        )
    return method


def ladder_of(setting: str, policy: Policy, bank: Bank) -> tuple[str, ...]:
    """The codecs of a run: those of a policy that names some, else those of the setting."""
    names, own = parse_codecs(setting), policy.codecs if isinstance(policy, ChoosesCodec) else ()
    if own and names not in ((RAW,), own):
        raise InputError(f"codec: {setting} given, but policy '{policy.name}' stores samples as {','.join(own)}")
    return resolve_ladder(own or names, bank.stored_shape, files=bank.has_files)


def name_policy(config: RunConfig, own: Policy | None = None) -> tuple[RunConfig, tuple[str, ...]]:
    """Replaces `auto` by a shipped policy, and says which one."""
    if own is not None or config.policy != AUTO:
        return config, ()
    choice = choose_policy(_conditions(config))
    return config.model_copy(update={"policy": choice.name}), (choice.reason,)


def _conditions(config: RunConfig) -> Conditions:
    net = "" if config.net.name == "auto" else config.net.name
    data = str(config.public()["data"]["name"])
    finetuned = config.finetune.epochs > 0
    return Conditions(data, config.method.name, config.scenario.phases, config.preset, net, finetuned)


def learned_note(config: RunConfig, policy: Policy) -> tuple[str, ...]:
    """Says on what a learned policy was learned, beside what it is used for."""
    conditions = _conditions(config)
    learned = learned_on(policy.provenance(), conditions)
    return () if learned is None else (f"policy {policy.name}: {learned}; {conditions}",)


def pin_policy(config: RunConfig, own: Policy | None) -> tuple[RunConfig, Policy]:
    """Returns the policy, and settings that identify it from any folder and at any later time."""
    if own is None:
        policy = resolve_policy(config.policy, config.seed, sample=config.sample_actions)
        base, codec = split_policy(config.policy)
        folder, suffix = policy_folder(base), "" if codec is None else f"@{codec}"
        name = config.policy if folder is None else f"{folder.absolute()}{suffix}"
    else:
        policy = sampled(own, config.seed) if config.sample_actions else own
        name = f"own:{own.name}"
    core = policy.core if isinstance(policy, Coded) else policy
    digest = core.digest if isinstance(core, Learned) else None
    if config.policy_sha256 not in (None, digest):
        raise InputError(
            f"policy: {name} has changed since this run began: sha256 {digest}, expected {config.policy_sha256}"
        )
    return config.model_copy(update={"policy": name, "policy_sha256": digest}), policy


def own_name(module: torch.nn.Module) -> str:
    """Names a user's network by its class and a digest of its structure and weights."""
    digest = hashlib.sha256(repr(module).encode())
    for name, value in module.state_dict().items():
        digest.update(name.encode() + value.detach().cpu().numpy().tobytes())
    return f"own:{type(module).__name__}-{digest.hexdigest()[:8]}"


def open_episode(
    prepared: Prepared, fabric: Fabric, emit: Emit, *, task: str = "target", keeper: Keeper | None = None
) -> Episode:
    """Returns the episode of a run before phase 0. Its random streams depend on the seed and on `task`."""
    config, scenario, streams = prepared.config, prepared.scenario, Streams(prepared.config.seed, task)
    return Episode(
        scenario.bank.fresh_copy(),
        open_learner(prepared, fabric, streams, emit, keeper=keeper),
        prepared.budget,
        streams,
        eval_bank=scenario.eval_bank,
        ladder=prepared.ladder,
        encodes_phase0=config.memory.codec_phase0,
    )


def open_learner(
    prepared: Prepared,
    fabric: Fabric,
    streams: Streams,
    emit: Emit,
    *,
    keeper: Keeper | None = None,
    keeps_backbone: bool = False,
) -> Learner:
    """Returns the learner of a run before phase 0. Sets the threads of this process."""
    config, scenario = prepared.config, prepared.scenario
    limit_threads(config.train.threads)
    keep_freed_memory()
    plan = plan_for(scenario.preprocessing, scenario.bank.shape, config.augment)
    spec = LearnerSpec(
        build=network_builder(prepared),
        measures=scenario.preprocessing.mean is None,
        method=prepared.method,
        finetune=config.finetune,
        rank=SELECTIONS[config.memory.selection].rank,
        steps_of=_raw_samples(prepared),
        keeps_backbone=keeps_backbone,
    )
    return Learner(spec, TrainContext(config.train, plan, fabric, streams, emit, keeper))


def _raw_samples(prepared: Prepared) -> int | None:
    """Raw samples that the bytes of a budget would hold, if runs are to have as many steps as with them."""
    limit = prepared.budget.bytes if prepared.config.memory.equal_steps else None
    return None if limit is None else max(1, limit // prepared.scenario.bank.stored_bytes)


def network_builder(prepared: Prepared) -> Callable[[int], Network]:
    """Returns a function from a seed to a network without classes."""
    scenario, preprocessing = prepared.scenario, prepared.scenario.preprocessing
    mean = None if preprocessing.mean is None else [255 * value for value in preprocessing.mean]
    std = None if preprocessing.std is None else [255 * value for value in preprocessing.std]
    net = prepared.config.net if prepared.module is None else prepared.module
    return lambda seed: build_network(net, scenario.bank.shape, prepared.method.head, seed, mean=mean, std=std)


def resolve_config(config: RunConfig, scenario: Scenario, budget: Budget, ladder: tuple[str, ...]) -> RunConfig:
    """Replaces every `auto` of the settings, and states budget and codecs."""
    net, memory = config.net, config.memory
    plan = plan_for(scenario.preprocessing, scenario.bank.shape, config.augment)
    net = net.model_copy(update={"name": backbone_name(net, scenario.bank.shape)})
    if budget.kind != "growing":
        memory = memory.model_copy(update={"budget": budget.setting, "exemplars": budget.exemplars})
    memory = memory.model_copy(update={"codec": ",".join(ladder)})
    return config.model_copy(
        update={
            "train": resolve_devices(config.train),
            "augment": config.augment.model_copy(update={"kind": plan.kind, "pad": plan.pad, "flip": plan.flip}),
            "net": net,
            "memory": memory,
        }
    )
