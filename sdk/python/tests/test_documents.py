"""Runs the examples of the README and of docs/sdks.md, and the scripts in ``examples``."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from journeyman_client import Journeyman

from .conftest import ENVIRONMENT, EXAMPLE_WAIT, PACKAGE, Server
from .stand_ins import AUDIENCE
from .test_webhooks import BODY, SECRET, signed

DOCUMENT = PACKAGE.parent.parent / "docs" / "openapi.json"
OPERATIONS = sorted((PACKAGE / "examples" / "operations").glob("*.py"))
SDKS = PACKAGE.parent.parent / "docs" / "sdks.md"


def run(server: Server, *arguments: str) -> str:
    environment = {**ENVIRONMENT, "JOURNEYMAN_URL": server.url, "JOURNEYMAN_KEY": server.key}
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=EXAMPLE_WAIT,
        check=True,
    )
    return done.stdout


def blocks(document: Path = PACKAGE / "README.md") -> list[str]:
    return re.findall(r"```python\n(.*?)```", document.read_text(), re.DOTALL)


def test_the_first_example_of_the_readme(server: Server) -> None:
    lines = run(server, "-c", blocks()[0]).splitlines()
    assert lines[0].startswith("completed http")
    assert "+Hello again" in lines


@pytest.mark.skipif(not SDKS.is_file(), reason="the source archive has no docs")
def test_the_examples_of_the_page_about_sdks(server: Server, client: Journeyman) -> None:
    job, exchange, webhook = blocks(SDKS)
    assert re.search(
        r"^completed http.*^finished ", run(server, "-c", job), re.DOTALL | re.MULTILINE
    )
    trust = client.trusts.create(
        name="examples",
        issuer=server.stand_ins.issuer,
        audience=AUDIENCE,
        claims={"sub": "ci"},
        projects=["shop"],
    )
    token = server.stand_ins.token()
    output = run(server, "-c", f"{exchange}\ncheck({server.url!r}, {token!r})")
    assert output.startswith("oidc:examples:ci ")
    client.trusts.delete(trust.id)
    call = f"receive({BODY.encode()!r}, {signed()!r}, {SECRET!r})"
    assert run(server, "-c", f"{webhook}\n{call}").startswith("evt_1 ")


def test_the_types_of_the_examples(tmp_path: Path) -> None:
    setup = (
        "from typing import Any\n"
        "from journeyman_client import Journeyman\n"
        "body, headers = b'', dict[str, str]()\n"
        "def handle(event: Any) -> None: ...\n"
        "client = Journeyman('http://127.0.0.1', 'key')\n"
        "job = client.jobs.get('shop', 'id')\n"
    )
    found = blocks() + (blocks(SDKS) if SDKS.is_file() else [])
    scripts = [tmp_path / f"example{number}.py" for number, _ in enumerate(found)]
    for script, block in zip(scripts, found, strict=True):
        script.write_text(setup + block)
    mypy = [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={tmp_path / 'cache'}"]
    command = [*mypy, "--config-file=", *map(str, scripts)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_script(server: Server) -> None:
    script = str(PACKAGE / "examples" / "chat.py")
    output = run(server, script, "shop", "[[say Hello]]", "[[write a.txt|A]]")
    assert "Hello" in output
    assert "completed" in output


@pytest.mark.parametrize("program", OPERATIONS, ids=lambda program: program.name)
def test_the_examples_of_operations_run(server: Server, program: Path) -> None:
    assert run(server, str(program))


@pytest.mark.skipif(not DOCUMENT.is_file(), reason="the source archive has no docs")
def test_each_operation_has_one_example() -> None:
    paths = json.loads(DOCUMENT.read_text())["paths"]
    operations = [
        operation["operationId"] for item in paths.values() for operation in item.values()
    ]
    programs = "\n".join(program.read_text() for program in OPERATIONS)
    regions = re.findall(r"# region (\w+)\n", programs)
    assert sorted(regions) == sorted(operations)
