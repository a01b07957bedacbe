"""The base classes of the generated models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError, field_validator
from pydantic.alias_generators import to_camel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import ValidatorFunctionWrapHandler

_SECRET_FIELDS = frozenset(
    {
        "app_token",
        "bot_token",
        "private_key",
        "secret",
        "signing_secret",
        "token",
        "webhook_secret",
    }
)

#: Classes with fields whose names are those of secrets only there.
_SECRETS_OF = {"SlackCode": "code", "UserLink": "url"}


def _alias(name: str) -> str:
    # The field `from` is `from_` in Python.
    return to_camel(name.rstrip("_"))


class Model(BaseModel):
    """An object of the HTTP interface.

    Objects cannot be changed. A newer server may send fields that this version of the package does
    not know: they are attributes under their names in JSON. It may also send new values of
    enumerations.
    """

    model_config = ConfigDict(
        alias_generator=_alias,
        populate_by_name=True,
        frozen=True,
        extra="allow",
        # Errors of validation would otherwise contain secrets.
        hide_input_in_errors=True,
        # Fields may be named `model` or `model_…`.
        protected_namespaces=(),
    )

    _etag: str | None = PrivateAttr(default=None)

    @property
    def etag(self) -> str | None:
        """The version of the object, for ``if_match``; ``None`` if the server sent none with it."""
        return self._etag

    @field_validator("*", mode="wrap")
    @classmethod
    def _accept_new_values(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        """Accepts values that were added to an enumeration after this package was generated."""
        try:
            return handler(value)
        except ValidationError as error:
            if all(detail["type"] == "literal_error" for detail in error.errors()):
                return value
            raise

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            hidden = name in _SECRET_FIELDS or name == _SECRETS_OF.get(type(self).__name__)
            hidden = hidden or (name == "secrets" and isinstance(value, dict))
            yield name, "***" if hidden and value is not None else value


class RequestModel(Model):
    """The body of a request. Unknown fields are refused, because they are typing errors."""

    model_config = ConfigDict(extra="forbid")
