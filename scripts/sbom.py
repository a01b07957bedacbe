#!/usr/bin/env python3
"""Writes the software bill of materials (SBOM) of the program for a target, as CycloneDX 1.6 in JSON: the crates that it
is built from, with their versions, licenses, checksums and dependencies, and the scripts that its pages load.

    scripts/sbom.py x86_64-unknown-linux-gnu > journeyman.sbom.json

The same sources give the same bytes: the time is SOURCE_DATE_EPOCH, and lists are sorted. Crates contain the C libraries
that they build (SQLite, zstd, jemalloc, aws-lc), so those have no entries.
"""

import datetime
import json
import os
import re
import sys
import tomllib
import uuid
from pathlib import Path

from shipped import graph

ROOT = Path(__file__).parent.parent


def purl(package: dict) -> str:
    """Returns the package URL of a crate."""
    return f"pkg:cargo/{package['name']}@{package['version'].replace('+', '%2B')}"


def licenses(expression: str | None) -> dict:
    """Returns the field for a license expression; cargo also accepts a slash for OR."""
    return {"licenses": [{"expression": re.sub(r"\s*/\s*", " OR ", expression)}]} if expression else {}


def component(package: dict, checksums: dict[tuple[str, str], str]) -> dict:
    """Returns the entry of a crate."""
    checksum = checksums.get((package["name"], package["version"]))
    links = [{"type": "vcs", "url": package["repository"]}] if package["source"] and package["repository"] else []
    return {
        "type": "library",
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": purl(package),
        **licenses(package["license"]),
        **({"hashes": [{"alg": "SHA-256", "content": checksum}]} if checksum else {}),
        **({"externalReferences": links} if links else {}),
    }


def vendored() -> list[dict]:
    """Returns the entries of the scripts that the pages load. The README of each names its npm package and version."""
    entries = []
    for readme in sorted(ROOT.glob("crates/*/assets/vendor/*/README.md")):
        named = re.search(r"npm package `([^`]+)` ([0-9.]+\d)", readme.read_text())
        if not named:
            sys.exit(f"{readme} must name the npm package and its version, as: npm package `NAME` 1.2.3")
        name, version = named.groups()
        reference = f"pkg:npm/{name.replace('@', '%40')}@{version}"
        license = (readme.parent / "LICENSE").read_text()
        if "Permission is hereby granted, free of charge" not in license:
            sys.exit(f"{readme.parent}/LICENSE is not the MIT license; add its name to this script")
        entries.append({
            "type": "library",
            "bom-ref": reference,
            "name": name,
            "version": version,
            "purl": reference,
            **licenses("MIT"),
        })
    return entries


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: sbom.py TARGET")
    target = sys.argv[1]
    packages, needs = graph(target)
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    checksums = {(p["name"], p["version"]): p["checksum"] for p in lock["package"] if "checksum" in p}
    program = next(package for package in packages.values() if package["name"] == "journeyman")
    scripts = vendored()
    crates = [component(package, checksums) for package in packages.values() if package is not program]
    dependencies = [
        {"ref": purl(packages[key]), "dependsOn": sorted({purl(packages[need]) for need in needs[key]})}
        for key in packages
    ]
    root = next(entry for entry in dependencies if entry["ref"] == purl(program))
    root["dependsOn"] = sorted(root["dependsOn"] + [script["bom-ref"] for script in scripts])
    time = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {**component(program, checksums), "type": "application"},
            "properties": [{"name": "journeyman:target", "value": target}],
        },
        "components": sorted(crates + scripts, key=lambda entry: entry["bom-ref"]),
        "dependencies": sorted(dependencies, key=lambda entry: entry["ref"]),
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    document = {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}", **document}
    json.dump(document, sys.stdout, indent=1)
    print()
    print(f"{len(crates)} crates, {len(scripts)} scripts", file=sys.stderr)


main()
