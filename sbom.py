"""Writes a software bill of materials (CycloneDX 1.5) of the installed environment: `make sbom`.

Versions are those of the lock files where the environment was made by `make`. The hashes of what may be installed are
there: a version has several files, and an environment does not say which of them it came from.
"""

import argparse
import json
import re
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any


def component(package: Distribution) -> dict[str, Any]:
    """Name, version, licence and package URL of one distribution."""
    name, facts = re.sub(r"[-_.]+", "-", package.name).lower(), package.metadata
    entry: dict[str, Any] = {
        "type": "library",
        "name": name,
        "version": package.version,
        "purl": f"pkg:pypi/{name}@{package.version}",
    }
    licence = facts.get("License-Expression") or (facts.get("License") or "").splitlines()[:1]
    text = licence if isinstance(licence, str) else "".join(licence)
    return entry | ({"licenses": [{"license": {"name": text[:200]}}]} if text else {})


def bill() -> dict[str, Any]:
    """The whole environment, by name; equal environments give equal bills."""
    found = {entry["name"]: entry for entry in map(component, distributions())}
    parts = [found[name] for name in sorted(found) if name != "remem"]
    own = found.get("remem", {"type": "library", "name": "remem"})
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": own}} | {
        "components": parts
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Writes a software bill of materials (CycloneDX 1.5).")
    parser.add_argument("--out", type=Path, default=Path("build/sbom.cdx.json"))
    out = parser.parse_args().out
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(bill(), indent=1) + "\n")
    print(out)
