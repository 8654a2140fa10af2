"""TensorBoard: event files in `tensorboard/` of the output folder."""

from collections.abc import Mapping
from pathlib import Path

from remem.tracking.tracker import Tracker


class TensorBoard(Tracker):
    """One folder of event files per run; `tensorboard --logdir DIR` shows them."""

    def __init__(self, name: str, out: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(out / "tensorboard" / name))

    def write(self, key_values: Mapping[str, float], step: int) -> None:
        for key, value in key_values.items():
            self._writer.add_scalar(key, value, step)

    def close(self) -> None:
        self._writer.close()
