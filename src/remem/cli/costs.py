"""What commands say before they begin: what the work will cost, and whether the machine is busy."""

import os
from typing import TYPE_CHECKING

from remem.cli.console import numbers, span

if TYPE_CHECKING:
    from remem.runs.cost import Machine, Range


class WorkerCount:
    """How many workers a command has, and what they are called."""

    def __init__(self, workers: int | None, ray: str | None, about: str) -> None:
        self._elsewhere = ray not in (None, "local")
        known = workers or (None if self._elsewhere else os.cpu_count())
        self.count = known or 1
        self.about = about if known else "one worker, and the cluster may have more"
        self.alone = ray is None and self.count == 1

    def machine(self, threads: int) -> "Machine":
        """This machine, or one of the size that the workers need: of a cluster nothing else is known."""
        from remem.runs.cost import Machine, machine_now

        return Machine(self.count * threads, 0.0) if self._elsewhere else machine_now()


def busy_lines(machine: "Machine", needed: int, stretch: float) -> list[str]:
    """One line if other programs will make it slower."""
    from remem.runs.cost import SQUEEZED

    effect = "it will take longer than on a quiet machine"
    if machine.is_crowded(needed):
        used = min(machine.others, machine.cores)
        return [f"busy     other programs use about {used:.1f} of {machine.cores} cores: {effect}"]
    if stretch > SQUEEZED:
        return [f"busy     other programs leave {100 / stretch:.0f} % of a core to this one: {effect}"]
    return []


def times(cost: "Range", one: "Range", what: str) -> str:
    """`0.5 to 0.9 of one target run (11 to 14 min)`."""
    share, each = cost.shares_of(one), span(one.low, one.high)
    if share.high < 1.5:
        return f"{numbers(share.low, share.high)} of one {what} ({each})"
    return f"as long as {numbers(share.low, share.high)} {what}s ({each} each)"


def unknown(error: Exception) -> str:
    """Instead of the cost, if it could not be estimated."""
    return f"cost     unknown ({type(error).__name__}: {' '.join(str(error).split())})"
