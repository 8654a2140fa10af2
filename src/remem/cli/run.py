"""`remem run`: one class-incremental run into a folder."""

import typer

from remem.cli import options
from remem.cli.training import stopped, train


def run(
    context: typer.Context,
    config: options.ConfigFile = None,
    *,
    dataset: options.Dataset = None,
    order: options.Order = None,
    phases: options.Phases = None,
    base_classes: options.BaseClasses = None,
    budget: options.Budget = None,
    exemplars: options.Exemplars = None,
    policy: options.Policy = None,
    selection: options.Selection = None,
    validation: options.Validation = None,
    method: options.Method = None,
    backbone: options.Backbone = None,
    preset: options.Preset = None,
    device: options.Device = None,
    devices: options.Devices = None,
    strategy: options.Strategy = None,
    settings: options.Set = None,
    out: options.Out,
    seed: options.Seed = None,
    data_root: options.DataRoot = None,
    quiet: options.Quiet = False,
) -> None:
    """Run one class-incremental experiment.

    Settings come from the preset, then CONFIG.toml, then flags, then --set; later ones win. The folder holds
    everything: `result.json`, the model, the predictions, the log, and a checkpoint after every phase.

    Example: remem run --dataset digits --phases 3 --budget 300 --policy fixed-0.6 --out first-run
    """
    try:
        train(options.read_settings(context.params), out, fresh=True, quiet=quiet)
    except KeyboardInterrupt:
        raise stopped(out) from None
