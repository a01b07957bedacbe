#!/usr/bin/env python3
"""Writes sdk/gitlab/templates/journeyman.yml from its frame and sdk/action/journeyman.sh; --check only compares."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FRAME, SCRIPT = ROOT / "sdk/gitlab/template.yml", ROOT / "sdk/action/journeyman.sh"
TARGET = ROOT / "sdk/gitlab/templates/journeyman.yml"


def generated() -> str:
    script = SCRIPT.read_text()
    if "$[[" in script:
        sys.exit(f"{SCRIPT} has the text $[[, which GitLab would replace")
    # A subshell keeps the options and the traps of the script away from the shell of the runner.
    lines = ["(", *script.splitlines()[1:], ")"]
    block = "\n".join(f"      {line}".rstrip() for line in lines)
    return FRAME.read_text().replace("SCRIPT\n", f"{block}\n")


if sys.argv[1:] == ["--check"]:
    if not TARGET.exists() or TARGET.read_text() != generated():
        sys.exit(f"{TARGET} differs from its sources; run python3 scripts/gitlab-template.py")
else:
    TARGET.write_text(generated())
