"""Calls the MCP server of the program that was built with clients that others wrote. The argument is Node.js."""

import asyncio
import sys

import client
import conformance
import inspector_cli
import program


def main(node: str) -> None:
    with program.serving(*program.UNLIMITED) as server:
        key, read_key = server.key("mcp"), server.key("read", "--scope=read")
        server.project(key, "shop")
        conformance.check(node, server.url, key)
        inspector_cli.check(node, str(program.PROGRAM), server.url, key, program.ENVIRONMENT)
        for transport in ("http", "stdio"):
            for mode in ("auto", "legacy"):
                connection = client.Connection(str(program.PROGRAM), server.url, key, transport, mode)
                asyncio.run(client.check(connection, read_key, server))


main(sys.argv[1])
