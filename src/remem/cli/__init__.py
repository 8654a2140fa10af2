"""The `remem` command: one file per command."""
