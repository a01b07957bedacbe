"""Pushes a first commit to a project. The arguments: the address of the server, a key, and the project."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import program

program.push(*sys.argv[1:4])
