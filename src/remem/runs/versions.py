"""The versions on which the numbers of a run depend."""

import torch

import remem


def versions() -> dict[str, str]:
    return {"remem": remem.__version__, "torch": torch.__version__}
