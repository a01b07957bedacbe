"""Pushes a first commit to a project. The arguments: the address of the server, a key, and the project."""

import sys

import program

program.push(*sys.argv[1:4])
