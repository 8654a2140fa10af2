"""Writes the lock files from pyproject.toml and constraints.txt: all packages with the hashes of all their files.

`python lock.py` needs `uv`. Whoever installs needs pip alone: see the Makefile. CUDA libraries are in a file of their
own, since only builds of torch for CUDA need them. So is the CPU build of torch, which the index does not have: of two
builds of one version, pip prefers the one whose hash its index tells.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent
PYTHON = "3.11.7"  # and all newer ones; some packages refuse older ones
BUILD = "setuptools>=77\n"  # builds remem itself
LOCK, CUDA, CPU = (ROOT / f"requirements{part}.lock" for part in ("", "-cuda", "-cpu"))
IS_CUDA = re.compile(r"(nvidia|cuda|triton)\b")
CPU_BUILDS = ("6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b",)  # Python 3.11, Linux x86_64
HEADER = "# {what}, with hashes. Written by lock.py from pyproject.toml and constraints.txt; do not edit.\n"


def main() -> None:
    command = ["uv", "pip", "compile", "pyproject.toml", "-", "--extra", "dev", "--constraint", "constraints.txt"]
    flags = ["--generate-hashes", "--universal", "--python-version", PYTHON, "--no-annotate", "--no-header", "--quiet"]
    try:
        found = subprocess.run([*command, *flags], input=BUILD, capture_output=True, text=True, cwd=ROOT)
    except FileNotFoundError:
        sys.exit("lock.py: needs `uv` on the PATH")
    if found.returncode:
        sys.exit(found.stderr)
    packages = entries(found.stdout)
    LOCK.write_text(HEADER.format(what="All packages") + "".join(p for p in packages if not IS_CUDA.match(p)))
    CUDA.write_text(HEADER.format(what="What torch for CUDA needs") + "".join(p for p in packages if IS_CUDA.match(p)))
    [torch] = [package.split()[0] for package in packages if package.startswith("torch==")]
    hashes = "".join(f" \\\n    --hash=sha256:{digest}" for digest in CPU_BUILDS)
    CPU.write_text(HEADER.format(what="torch for CPUs, where pip is told of it") + f"{torch}+cpu{hashes}\n")


def entries(text: str) -> list[str]:
    """The text of each package: its name and version, then a line for each hash."""
    return re.findall(r"^\S.*\n(?:[ \t].*\n)*", text, re.MULTILINE)


if __name__ == "__main__":
    main()
