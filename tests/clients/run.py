"""Generates clients of docs/openapi.json with public generators, compiles them strictly, and calls the program that was
built with them. The arguments: the folder of the generated clients, with the packages of Node.js, and Node.js."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import program
import public_interface

HERE = Path(__file__).resolve().parent

SCRIPTS = ["hey-api", "openapi-fetch", "orval"]


def run(folder: Path, *command: str | Path, **variables: str) -> None:
    """Runs a command, and shows its output only if it fails."""
    environment = {**program.ENVIRONMENT, **variables}
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.run(command, cwd=folder, env=environment, **output)
    if done.returncode != 0:
        sys.exit(f"clients: {command} ended with {done.returncode}:\n{done.stdout}")
    for line in done.stdout.splitlines():
        if line.startswith("clients: "):
            print(line, flush=True)


def generate_python(folder: Path) -> None:
    tools = Path(sys.executable).parent
    output = folder / "python"
    shutil.rmtree(output, ignore_errors=True)
    # The generator runs ruff, which is in the same folder.
    path = f"{tools}:{os.environ['PATH']}"
    options = ["--path", folder / "openapi.json", "--output-path", output, "--fail-on-warning"]
    run(folder, tools / "openapi-python-client", "generate", *options, PATH=path)
    sources = [output / "journeyman_client", HERE / "python_client.py"]
    run(folder, tools / "mypy", "--strict", "--cache-dir", folder / "mypy", *sources, MYPYPATH=str(output))


def generate_typescript(folder: Path, node: str) -> None:
    modules = folder / "node_modules"
    shutil.rmtree(folder / "generated", ignore_errors=True)
    output = "generated/openapi-typescript.ts"
    run(folder, node, modules / "openapi-typescript/bin/cli.js", "openapi.json", "-o", output)
    run(folder, node, modules / "@hey-api/openapi-ts/bin/run.js", "-f", "hey-api.config.mjs")
    run(folder, node, modules / "orval/dist/bin/orval.mjs", "--config", "orval.config.mjs")
    run(folder, node, modules / "typescript/bin/tsc", "-p", "tsconfig.json")


def main(folder: Path, node: str) -> None:
    shutil.copy(program.ROOT / "docs/openapi.json", folder)
    generate_python(folder)
    generate_typescript(folder, node)
    with program.serving(*program.UNLIMITED) as server:
        key = server.key("clients")
        variables = {"JOURNEYMAN_URL": server.url, "JOURNEYMAN_KEY": key}
        variables |= {"PYTHON": sys.executable, "PUSH": str(HERE / "push.py")}
        script = HERE / "python_client.py"
        run(folder, sys.executable, script, server.url, key, "python", PYTHONPATH=os.pathsep.join([str(folder / "python"), os.environ["PYTHONPATH"]]))
        for name in SCRIPTS:
            run(folder, node, f"built/{name}.js", **variables)
    public_interface.check()


main(Path(sys.argv[1]), sys.argv[2])
