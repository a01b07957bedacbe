#!/usr/bin/env python3
"""Report doc comments that open with a relative clause or a bare pronoun.

Usage: scripts/doc-openings.py [--lines] [PATH...]

Prints the share for each crate and for the whole tree. `--lines` also prints each opening with its
file and line. PATH limits the report to some files or folders. The script always succeeds.
"""

import argparse
import collections
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Words that open a relative clause ("What the host said.") or stand for a noun that is not there
# ("Its files."). "How" as in "How long …" and "When …" as a subordinate clause are included:
# neither names the item that is documented.
OPENERS = set(
    """what whatever whether which whichever who whoever whose whom how where when why that
    it its itself they their them theirs he his she her of none nobody somebody
    this these those one ones as such from for by in with at on to all there""".split()
)

COMMENT = re.compile(r"^\s*//[/!](?!/)\s?(.*)$")
WORD = re.compile(r"[A-Za-z']+")


def openings(path):
    """Yields the line number and the first line of each doc comment of a file."""
    previous = None
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        match = COMMENT.match(line)
        style = line.lstrip()[:3] if match else None
        if match and style != previous:
            yield number, match.group(1).strip()
        previous = style


def is_weak(text):
    """Returns whether the opening needs another sentence, or the name below it, to be understood."""
    word = WORD.match(text)
    return bool(word) and word.group().lower().split("'")[0] in OPENERS


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", action="store_true", help="print each opening")
    parser.add_argument("paths", nargs="*", type=pathlib.Path, default=[ROOT / "crates"])
    arguments = parser.parse_args()

    total, weak = collections.Counter(), collections.Counter()
    for given in arguments.paths:
        for path in [given] if given.is_file() else sorted(given.rglob("*.rs")):
            resolved = path.resolve()
            name = resolved.relative_to(ROOT) if resolved.is_relative_to(ROOT) else path
            group = name.parts[1] if name.parts[0] == "crates" else name.parts[0]
            for number, text in openings(path):
                total[group] += 1
                if is_weak(text):
                    weak[group] += 1
                    if arguments.lines:
                        print(f"{name}:{number}: {text}")

    for group in sorted(total):
        print(f"{group:12} {weak[group]:5} of {total[group]:5}  {weak[group] / total[group]:6.1%}")
    count, of = weak.total(), total.total()
    print(f"{'all':12} {count:5} of {of:5}  {count / of if of else 0:6.1%}")


if __name__ == "__main__":
    main()
