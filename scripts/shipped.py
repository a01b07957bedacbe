"""Reads from cargo which third-party crates the program is built from, for the scripts that list them."""

import json
import subprocess

TARGETS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]


def graph(target: str) -> tuple[dict[str, dict], dict[str, list[str]]]:
    """Returns the packages that the program for a target is built from, by ID, and the IDs of what each of them needs.
    The packages of this project are among them; they have no `source`."""
    features = ["--features", "journeyman/jemalloc"]
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target, *features]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    needs = {
        node["id"]: [dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
        for node in metadata["resolve"]["nodes"]
    }
    found = {package["id"] for package in metadata["packages"] if package["name"] == "journeyman"}
    new = list(found)
    while new:
        fresh = set(needs[new.pop()]) - found
        found |= fresh
        new.extend(fresh)
    return {key: packages[key] for key in found}, {key: needs[key] for key in found}


def shipped(target: str) -> dict[str, dict]:
    """Returns the third-party packages that the program for a target is built from, by ID."""
    return {key: package for key, package in graph(target)[0].items() if package["source"]}
