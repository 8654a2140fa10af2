"""`remem policy`: where a policy comes from and what it would do."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from remem.cli.console import PLAIN
from remem.errors import InputError

app = typer.Typer(help="Show policies.", no_args_is_help=True, **PLAIN)

KINDS = (".png", ".svg", ".html")


@app.callback()
def _policies() -> None:
    """Makes `show` a sub-command although it is the only one."""


@app.command("show")
def show(
    policy: Annotated[str, typer.Argument(metavar="POLICY", help="A name or a policy folder.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Draw it: FILE.png, FILE.svg or FILE.html.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON instead.")] = False,
) -> None:
    """Show where a policy comes from and how probable its actions are.

    Probabilities are given over the states that a policy can meet, and its path through the customary scenario (100
    classes, half of them in phase 0) for 5, 10 and 25 phases. Nothing is trained.
    """
    from remem.policies.table import require_policy, resolve_policy

    require_policy(policy)  # before torch is imported
    from remem.report.policy_text import BARS, PLAIN_BARS, policy_text
    from remem.report.policy_view import as_tree

    if out is not None and out.suffix.lower() not in KINDS:
        raise InputError(f"--out: {out} given, expected a name that ends in {', '.join(KINDS)}")
    chosen = resolve_policy(policy, seed=0)
    if as_json:
        print(json.dumps(as_tree(chosen), indent=1))
    else:
        print(policy_text(chosen, BARS if _can_print(BARS) else PLAIN_BARS))
    if out is not None:
        from remem.report.policy_plot import draw_policy

        try:
            draw_policy(chosen, out)
        except OSError as error:
            raise InputError(f"--out: {out} cannot be written ({error.strerror})") from error
        typer.echo(f"picture: {out}", err=as_json)


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
