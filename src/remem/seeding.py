"""Independent random streams derived from (seed, task, phase, purpose, epoch), so no generator state is ever saved."""

import hashlib
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Streams:
    """All random streams of one episode. Equal keys give equal numbers in any process and in any order."""

    seed: int
    task: str = "target"

    def integer(self, phase: int, purpose: str, epoch: int = 0) -> int:
        """A 63-bit seed, for example for a torch generator."""
        key = f"{self.seed}/{self.task}/{phase}/{purpose}/{epoch}".encode()
        return int.from_bytes(hashlib.sha256(key).digest()[:8], "little") >> 1

    def numpy(self, phase: int, purpose: str, epoch: int = 0) -> np.random.Generator:
        return np.random.default_rng(self.integer(phase, purpose, epoch))
