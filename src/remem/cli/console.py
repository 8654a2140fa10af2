"""Plain output: lines, durations and percentages as all commands write them."""

import os
from typing import Any

from rich.console import Console

PLAIN: Any = {
    "add_completion": False,
    "rich_markup_mode": "markdown",
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
"""Arguments of every typer app."""


def say(console: Console, *lines: str) -> None:
    """Prints lines as they are: no markup, no colours, no wrapping."""
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def clock(seconds: float) -> str:
    """75 -> '1:15', 3700 -> '1:01:40'."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def span(low: float, high: float) -> str:
    """Seconds from low to high, in one unit: (360, 660) -> '6 to 11 min'."""
    unit, size = ("s", 1) if high < 100 else ("min", 60) if high < 6000 else ("h", 3600)
    return f"{numbers(low / size, high / size)} {unit}"


def numbers(low: float, high: float) -> str:
    """(0.521, 11.4) -> '0.52 to 11'; one number if both are shown alike."""
    first, last = map(_short, (low, high))
    return last if first == last else f"{first} to {last}"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 9.95 else f"{max(0.01, number):.2g}"


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def size(count: float) -> str:
    """12_600_000 -> '12.6 MB'."""
    for unit in ("bytes", "kB", "MB"):
        if count < 999.5:
            return f"{count:.0f} {unit}" if unit == "bytes" or count >= 99.95 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def is_follower() -> bool:
    """Whether another process of the same run talks to the user; Fabric starts one process per device."""
    return any(os.environ.get(name, "0") != "0" for name in ("LOCAL_RANK", "NODE_RANK"))
