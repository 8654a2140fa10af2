"""The entry point of the command: Ctrl-C while everything is being imported ends it without a traceback."""

import sys


def main() -> None:
    try:
        from remem.cli.main import main as command
    except KeyboardInterrupt:
        print("stopped before anything began", file=sys.stderr)
        raise SystemExit(130) from None
    command()
