"""TensorBoard: event files in `tensorboard/` of the output folder."""

from collections.abc import Mapping
from pathlib import Path

from remem.tracking.tracker import Tracker


class TensorBoard(Tracker):
    """One folder of event files per run; `tensorboard --logdir DIR` shows them. Resumed work adds a file."""

    def __init__(self, name: str, out: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._folder = out / "tensorboard" / name
        self._writer = SummaryWriter(str(self._folder))

    def write(self, key_values: Mapping[str, float], step: int) -> None:
        for key, value in key_values.items():
            self._writer.add_scalar(key, value, step)

    def close(self) -> None:
        self._writer.close()

    def last_steps(self) -> Mapping[str, int]:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        self._writer.flush()
        events = EventAccumulator(str(self._folder), size_guidance={"scalars": 1})  # keeps the last one of each key
        events.Reload()
        return {key: max(event.step for event in events.Scalars(key)) for key in events.Tags()["scalars"]}
