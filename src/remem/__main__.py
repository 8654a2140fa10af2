"""`python -m remem` is the `remem` command."""

from remem.cli.main import main

if __name__ == "__main__":
    main()
