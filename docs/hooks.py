"""Links to files of the repository that are not part of the site become plain text; missing files are warnings."""

import logging
import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"\[([^\]]*)\]\((\.\./[^)\s]*)\)")
log = logging.getLogger("mkdocs.plugins.remem")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Called by mkdocs for every page."""
    docs = Path(config["docs_dir"]).resolve()
    here = (docs / page.file.src_uri).parent

    def replace(match: re.Match[str]) -> str:
        target = (here / match[2].partition("#")[0]).resolve()
        if target.is_relative_to(docs):
            return match[0]
        if not target.exists():
            log.warning("%s: %s does not exist", page.file.src_uri, match[2])
        return match[1]

    return LINK.sub(replace, markdown)
