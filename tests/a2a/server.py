"""Starts the program that was built with one project, and runs a command with the address and keys of the server.

The variables of the command: A2A_URL, A2A_KEY, and A2A_READ_KEY, a key that only reads.
"""

import subprocess
import sys

from service import ENVIRONMENT, Service, folder


def main() -> None:
    with folder("a2a") as path:
        server = Service(path, "--log=info")
        try:
            key = server.key("a2a")
            server.post("/v2/projects", key, {"id": "shop", "repository": "local:shop"})
            server.push("shop", key)
            read = server.post("/v2/keys", key, {"name": "read", "scopes": ["read"]})["secret"]
            variables = {"A2A_URL": server.url, "A2A_KEY": key, "A2A_READ_KEY": read}
            done = subprocess.run(sys.argv[1:], env={**ENVIRONMENT, **variables})
        finally:
            status = server.stop()
        if done.returncode != 0 or status != 0:
            sys.exit(f"a2a: the server's status is {status}; its log:\n{server.log()[-10_000:]}")


main()
