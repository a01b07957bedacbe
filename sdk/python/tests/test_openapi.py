"""Compares the package with the OpenAPI document."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from journeyman_client import _operations, models

from .conftest import PACKAGE

DOCUMENT = PACKAGE.parent.parent / "docs" / "openapi.json"

if not DOCUMENT.is_file():
    pytest.skip("the OpenAPI document is not in the source archive", allow_module_level=True)

OPERATIONS = {
    operation["operationId"]: operation
    for item in json.loads(DOCUMENT.read_text())["paths"].values()
    for operation in item.values()
}
SCHEMAS: dict[str, Any] = json.loads(DOCUMENT.read_text())["components"]["schemas"]
SOURCE = "\n".join(
    path.read_text() for path in (PACKAGE / "src/journeyman_client/_async").glob("*.py")
)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_has_a_method(operation: str) -> None:
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper()
    assert isinstance(getattr(_operations, name), _operations.Operation)
    assert re.search(rf"\bop\.{name}\b", SOURCE)
    for parameter in OPERATIONS[operation].get("parameters", []):
        # The SDK sends `Last-Event-ID` to resume a stream, instead of a parameter.
        if parameter["in"] == "query":
            assert f'"{parameter["name"]}"' in SOURCE


def alias(name: str) -> str:
    alias = models.Job.model_config["alias_generator"]
    assert callable(alias)
    return str(alias(name))


@pytest.mark.parametrize("schema", [name for name in SCHEMAS if hasattr(models, name)])
def test_names_of_fields(schema: str) -> None:
    model = getattr(models, schema)
    if "properties" in SCHEMAS[schema]:
        assert {alias(name) for name in model.model_fields} == set(SCHEMAS[schema]["properties"])


def examples() -> list[tuple[str, str, Any]]:
    found = []
    for name, operation in OPERATIONS.items():
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        for content in (body.get("content", {}).get("application/json", {}) for body in bodies):
            schema = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
            given = [content["example"]] if "example" in content else []
            given += [example["value"] for example in content.get("examples", {}).values()]
            found += [(name, schema, example) for example in given if hasattr(models, schema)]
    return found


def test_examples() -> None:
    assert len(examples()) > 100
    for operation, schema, example in examples():
        parsed = getattr(models, schema).model_validate(example)
        again = json.loads(parsed.model_dump_json(by_alias=True, exclude_unset=True))
        assert again.keys() == example.keys(), operation
