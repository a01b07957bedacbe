"""The operations of users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import Unpack

from .. import _operations as op
from .. import models
from .._core import page_of
from ._paging import AsyncPager

if TYPE_CHECKING:
    from .. import params
    from ._client import AsyncJourneyman

_USERS = page_of(models.UserList, lambda page: page.users)


class AsyncUsers:
    """The users of the dashboard: ``client.users``."""

    def __init__(self, client: AsyncJourneyman) -> None:
        self._transport = client._transport

    async def create(
        self, *, idempotency_key: str | None = None, **user: Unpack[params.CreateUser]
    ) -> models.CreatedUser:
        """Creates a user. Only the result contains the ``link`` to set a password.

        Args:
            idempotency_key: A key of 1 to 255 ASCII characters. A repetition within 24 hours
                returns the same user and link.
            user: The fields of the user: ``name``, and optionally ``role``.

        Raises:
            ConflictError: A user with this name exists (``user_exists``).
            ValueError: A field is unknown, or has a wrong type.
        """
        return await self._transport.get(
            models.CreatedUser,
            op.CREATE_USER,
            body=models.CreateUser.model_validate(user),
            idempotency_key=idempotency_key,
        )

    async def get(self, user: str) -> models.User:
        """Returns a user."""
        return await self._transport.get(models.User, op.GET_USER, user)

    def list(
        self, *, page_size: int | None = None, cursor: str | None = None
    ) -> AsyncPager[models.User]:
        """Lists the users, sorted by name, including disabled ones."""
        query = {"limit": page_size, "cursor": cursor}
        return AsyncPager(self._transport, _USERS, op.LIST_USERS, query=query)

    async def update(
        self,
        user: str,
        *,
        if_match: str | models.User | None = None,
        **changes: Unpack[params.ChangeUser],
    ) -> models.User:
        """Changes the role of a user, or disables, enables or disconnects the user.

        Keys that exceed the rights of the user are revoked.

        Args:
            user: The ID of the user.
            if_match: A user who was read earlier, or the ETag.
            changes: The fields to change: ``role``, ``disabled`` and ``hasIdentity``.

        Raises:
            ConflictError: The user is the last administrator (``last_administrator``), or could not
                sign in without the provider (``password_missing``).
            PreconditionFailedError: The user has changed.
        """
        return await self._transport.get(
            models.User,
            op.CHANGE_USER,
            user,
            body=models.ChangeUser.model_validate(changes),
            if_match=if_match,
        )

    async def create_link(
        self, user: str, *, idempotency_key: str | None = None
    ) -> models.UserLink:
        """Creates a link to set a password, instead of earlier ones. Only the result contains it.

        Args:
            user: The ID of the user.
            idempotency_key: A key of 1 to 255 ASCII characters. A repetition within 24 hours
                returns the same link.

        Raises:
            ConflictError: The user is disabled (``user_disabled``).
        """
        return await self._transport.get(
            models.UserLink, op.CREATE_USER_LINK, user, idempotency_key=idempotency_key
        )
