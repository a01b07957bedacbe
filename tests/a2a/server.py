"""Starts the program that was built with one project, and runs a command with the address and keys of the server.

The variables of the command: A2A_URL, A2A_KEY, and A2A_READ_KEY, a key that only reads.
"""

import subprocess
import sys

import program

with program.serving(*program.UNLIMITED) as server:
    key = server.key("a2a")
    server.project(key, "shop")
    read = server.key("read", "--scope=read")
    variables = {"A2A_URL": server.url, "A2A_KEY": key, "A2A_READ_KEY": read}
    subprocess.run(sys.argv[1:], env={**program.ENVIRONMENT, **variables}, check=True)
