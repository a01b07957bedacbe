#!/usr/bin/env python3
"""Writes the licenses of all third-party code in the program: of the crates that it is built from, of the scripts that
its pages load, and of the syntax definitions with which it highlights code. Equal texts are written once.

Fails if a crate has no license file, and no other crate has one for its license.
"""

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from shipped import TARGETS, shipped

FILES = re.compile(r"(?i)^(licen[cs]e|copying|copyright|notice|unlicense)([-._].*)?$")
RULE = "-" * 100


def texts(folder: Path) -> list[str]:
    """Returns the texts of the license files in a folder, and in its folder of licenses."""
    files = [file for file in sorted(folder.iterdir()) if file.is_file() and FILES.match(file.name)]
    for name in ["LICENSES", "licenses"]:
        files.extend(sorted((folder / name).glob("*")) if (folder / name).is_dir() else [])
    return [file.read_text(errors="replace").replace("\r\n", "\n").strip("\n") for file in files]


def identifiers(license: str) -> set[str]:
    """Returns the identifiers in a license expression."""
    return set(re.split(r"[ ()/]+", license)) - {"", "AND", "OR", "WITH"}


def section(heading: str, text: str) -> None:
    print(f"\n{RULE}\n{heading}\n{RULE}\n\n{text}")


def main() -> None:
    packages = {key: package for target in TARGETS for key, package in shipped(target).items()}
    users: dict[str, list[str]] = defaultdict(list)
    known, without = set(), []
    for package in sorted(packages.values(), key=lambda package: (package["name"], package["version"])):
        license = package["license"] or "unknown"
        name = f"{package['name']} {package['version']} ({license})"
        own = texts(Path(package["manifest_path"]).parent)
        for text in own:
            users[text].append(name)
        if own:
            known |= identifiers(license)
        else:
            without.append((license, f"{name}, {', '.join(package['authors']) or package['repository']}"))
    if unknown := [name for license, name in without if not identifiers(license) & known]:
        sys.exit(f"there is no text for the licenses of {'; '.join(unknown)}")
    root = Path(__file__).parent.parent
    for file in sorted(root.glob("crates/*/assets/**/*LICENSE*")):
        users[file.read_text().strip("\n")].append(str(file.relative_to(root)))
    print("The program journeyman contains the following third-party code under the following licenses.")
    for text, names in sorted(users.items(), key=lambda item: (-len(item[1]), item[1])):
        section("\n".join(names), text)
    if without:
        heading = "These crates have no license file. The texts of the licenses in parentheses are above."
        section(heading, "\n".join(name for _, name in without))
    # With --workspace, cargo uses what the tests have built: the features of dependencies are the same.
    build = ["cargo", "build", "--quiet", "--locked", "--workspace", "--example", "syntax_licenses"]
    subprocess.run(build, cwd=root, check=True)
    example = root.resolve() / os.environ.get("CARGO_TARGET_DIR", "target") / "debug/examples/syntax_licenses"
    syntaxes = subprocess.run([example], cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout
    section("Syntax definitions", syntaxes.strip())
    print(f"{len(packages)} crates, {len(users)} texts, {len(without)} crates without a text", file=sys.stderr)


main()
