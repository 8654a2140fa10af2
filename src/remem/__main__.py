"""`python -m remem` is the `remem` command."""

from remem.cli.start import main

if __name__ == "__main__":
    main()
