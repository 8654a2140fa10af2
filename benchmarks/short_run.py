"""A whole CIFAR-100 run of few epochs in a process of its own: peak memory, and what applying the policy costs.

The last line that it prints is JSON. Epochs change neither what a run holds at its peak nor what its policy costs; the
fewer there are, the larger is the policy's share."""

import json
import resource
from typing import Any

from remem.runs.build import prepare
from remem.runs.config import compose
from remem.runs.run import run

SETTINGS: dict[str, Any] = {
    "data": {"name": "cifar100"},
    "scenario": {"order": "lucir", "phases": 5},
    "memory": {"budget": 7000},
    "method": {"name": "icarl"},
    "policy": "rmm",
    "train": {"epochs": 1},
    "finetune": {"epochs": 1},
}


def main() -> None:
    result = run(prepare(compose(SETTINGS)))
    seconds = [phase.seconds for phase in result.phases]
    print(
        json.dumps(
            {
                "peak": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
                "policy": sum(part["policy"] for part in seconds),
                "all": sum(sum(part.values()) for part in seconds),
            }
        )
    )


if __name__ == "__main__":
    main()
