"""Trains PPO of stable-baselines3 on pseudo tasks, then uses the agent as the policy of a real run.

python examples/train_with_stable_baselines3.py            # about a minute on one core
python examples/train_with_stable_baselines3.py --help
"""

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

import gymnasium
from stable_baselines3 import PPO

import remem
from remem.policies.agent import AgentPolicy

PHASES, BASE_CLASSES, BUDGET = 3, 6, 250  # six digits in phase 0; pseudo tasks are made from them


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains on phase 0 of the digits, then prints average accuracies over all phases."""
    options = _parser().parse_args(arguments)
    training: dict[str, Any] = {
        "net": {"name": "small", "width": 8, "blocks": [1, 1]},
        "train": {"epochs": options.epochs, "batch_size": 32},
        "finetune": {"epochs": 2},
    }
    env = gymnasium.make(
        "remem/PseudoCIL-v0",
        dataset="digits",
        phases=PHASES,
        budget=BUDGET,
        pool=options.pool,
        seed=options.seed,
        settings={"scenario.base_classes": BASE_CLASSES, **training},
    )
    model = PPO(
        "MlpPolicy",
        env,
        learning_rate=0.003,
        n_steps=options.rollout,
        batch_size=options.rollout,
        gamma=1.0,  # the paper's return is not discounted
        seed=options.seed,
        device="cpu",
    )
    model.learn(options.steps)
    source = env.get_wrapper_attr("source")  # what it was learned on, for `policy_saw_classes` of the results
    agent = AgentPolicy(partial(model.predict, deterministic=True), "ppo", source=source)

    scenario = remem.scenario("digits", phases=PHASES, base_classes=BASE_CLASSES)
    for policy in ("static", agent):
        seeds = range(options.runs)
        results = [remem.run(scenario, policy=policy, budget=BUDGET, seed=s, settings=training) for s in seeds]
        average = sum(result.average_accuracy for result in results) / len(results)
        shares = ", ".join(str(phase.action.old_share) for phase in results[0].phases[1:])
        name = policy if isinstance(policy, str) else policy.name
        print(f"{name:8} average accuracy {100 * average:.2f} %, old shares {shares}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=240, help="environment steps (phases) to train for")
    parser.add_argument("--rollout", type=int, default=48, help="environment steps between two updates")
    parser.add_argument("--pool", type=int, default=2, help="number of pseudo tasks")
    parser.add_argument("--epochs", type=int, default=5, help="training epochs per phase")
    parser.add_argument("--runs", type=int, default=3, help="target runs, one per seed")
    parser.add_argument("--seed", type=int, default=0, help="seed of the tasks and of the agent")
    return parser


if __name__ == "__main__":
    main()
