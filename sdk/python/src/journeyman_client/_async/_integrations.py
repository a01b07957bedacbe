"""The operations of trusts and of Slack workspaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import Unpack

from .. import _operations as op
from .. import models
from .._core import page_of
from ._paging import AsyncPager

if TYPE_CHECKING:
    import builtins

    from .. import params
    from ._client import AsyncJourneyman

_TRUSTS = page_of(models.TrustList, lambda page: page.trusts)
_SLACK_EVENTS = page_of(models.SlackEventPage, lambda page: page.events)
_SLACK_POSTS = page_of(models.SlackPostPage, lambda page: page.posts)


class AsyncTrusts:
    """The rules about which tokens are exchanged for keys: ``client.trusts``.

    To exchange a token, see :meth:`AsyncJourneyman.exchange_token`.
    """

    def __init__(self, client: AsyncJourneyman) -> None:
        self._transport = client._transport

    async def create(
        self, *, idempotency_key: str | None = None, **trust: Unpack[params.CreateTrust]
    ) -> models.Trust:
        """Creates a trust.

        Args:
            idempotency_key: A key of 1 to 255 ASCII characters. A repetition within 24 hours
                returns the same trust.
            trust: The fields of the trust: ``name``, ``issuer``, ``claims``, ``projects``, and
                optionally ``audience`` and ``scope``.

        Raises:
            ConflictError: A trust with this name exists (``trust_exists``).
            ValueError: A field is unknown, or has a wrong type.
        """
        return await self._transport.get(
            models.Trust,
            op.CREATE_TRUST,
            body=models.CreateTrust.model_validate(trust),
            idempotency_key=idempotency_key,
        )

    async def get(self, trust: str) -> models.Trust:
        """Returns a trust."""
        return await self._transport.get(models.Trust, op.GET_TRUST, trust)

    def list(
        self, *, page_size: int | None = None, cursor: str | None = None
    ) -> AsyncPager[models.Trust]:
        """Lists the trusts, oldest first."""
        query = {"limit": page_size, "cursor": cursor}
        return AsyncPager(self._transport, _TRUSTS, op.LIST_TRUSTS, query=query)

    async def update(
        self,
        trust: str,
        *,
        if_match: str | models.Trust | None = None,
        **changes: Unpack[params.ChangeTrust],
    ) -> models.Trust:
        """Changes a trust. Its keys are revoked, unless only its name changes.

        Args:
            trust: The ID of the trust.
            if_match: A trust that was read earlier, or its ETag.
            changes: The fields to change.

        Raises:
            ConflictError: A trust with this name exists (``trust_exists``).
            PreconditionFailedError: The trust has changed.
        """
        return await self._transport.get(
            models.Trust,
            op.CHANGE_TRUST,
            trust,
            body=models.ChangeTrust.model_validate(changes),
            if_match=if_match,
        )

    async def delete(self, trust: str, *, if_match: str | models.Trust | None = None) -> None:
        """Deletes a trust, and revokes its keys at once.

        Raises:
            PreconditionFailedError: The trust has changed.
        """
        await self._transport.call(op.DELETE_TRUST, trust, if_match=if_match)


class AsyncSlack:
    """The Slack workspaces: ``client.slack``."""

    def __init__(self, client: AsyncJourneyman) -> None:
        self._transport = client._transport

    async def create(
        self,
        *,
        idempotency_key: str | None = None,
        **workspace: Unpack[params.ChangeSlackWorkspace],
    ) -> models.SlackWorkspace:
        """Connects a workspace. The server asks Slack for the workspace of the token.

        Args:
            idempotency_key: A key of 1 to 255 ASCII characters. A repetition within 24 hours
                returns the same workspace.
            workspace: The fields of the workspace: ``bot_token``, ``signing_secret`` (for the mode
                ``events``) or ``app_token`` (for the mode ``socket``), and optionally ``mode``,
                ``name``, ``channels`` and ``users``.

        Raises:
            APIError: Slack refused the token, or cannot be reached (422, ``slack_failed``).
            ConflictError: The workspace is connected already (``slack_workspace_exists``).
        """
        return await self._transport.get(
            models.SlackWorkspace,
            op.CREATE_SLACK_WORKSPACE,
            body=models.ChangeSlackWorkspace.model_validate(workspace),
            idempotency_key=idempotency_key,
        )

    async def get(self, workspace: str) -> models.SlackWorkspace:
        """Returns a workspace, and which of its secrets are set."""
        return await self._transport.get(models.SlackWorkspace, op.GET_SLACK_WORKSPACE, workspace)

    async def list(self) -> builtins.list[models.SlackWorkspace]:
        """Returns all workspaces, oldest first, without their secrets."""
        found = await self._transport.get(models.SlackWorkspaceList, op.LIST_SLACK_WORKSPACES)
        return found.workspaces

    async def update(
        self,
        workspace: str,
        *,
        if_match: str | models.SlackWorkspace | None = None,
        **changes: Unpack[params.ChangeSlackWorkspace],
    ) -> models.SlackWorkspace:
        """Changes a workspace, and connects and disconnects channels and people.

        Args:
            workspace: The ID of the workspace.
            if_match: A workspace that was read earlier, or its ETag.
            changes: The fields to change. ``None`` removes a secret, and an entry of ``channels``
                or ``users``.

        Raises:
            APIError: Slack refused a new token, or cannot be reached (422, ``slack_failed``).
            PreconditionFailedError: The workspace has changed.
        """
        return await self._transport.get(
            models.SlackWorkspace,
            op.CHANGE_SLACK_WORKSPACE,
            workspace,
            body=models.ChangeSlackWorkspace.model_validate(changes),
            if_match=if_match,
        )

    async def delete(
        self, workspace: str, *, if_match: str | models.SlackWorkspace | None = None
    ) -> None:
        """Removes a workspace with its secrets, events, threads and posts. Jobs stay.

        Raises:
            PreconditionFailedError: The workspace has changed.
        """
        await self._transport.call(op.REMOVE_SLACK_WORKSPACE, workspace, if_match=if_match)

    async def check(self, workspace: str) -> builtins.list[models.Finding]:
        """Tests a workspace; see ``health`` of each finding. Stores nothing."""
        found = await self._transport.get(models.FindingList, op.CHECK_SLACK_WORKSPACE, workspace)
        return found.findings

    def events(
        self, workspace: str, *, page_size: int | None = None, cursor: str | None = None
    ) -> AsyncPager[models.SlackEvent]:
        """Lists mentions, replies and direct messages with what became of each, newest first."""
        query = {"limit": page_size, "cursor": cursor}
        return AsyncPager(
            self._transport, _SLACK_EVENTS, op.LIST_SLACK_EVENTS, workspace, query=query
        )

    def posts(
        self, workspace: str, *, page_size: int | None = None, cursor: str | None = None
    ) -> AsyncPager[models.SlackPost]:
        """Lists what the server writes to Slack, with the errors of Slack, newest first."""
        query = {"limit": page_size, "cursor": cursor}
        return AsyncPager(
            self._transport, _SLACK_POSTS, op.LIST_SLACK_POSTS, workspace, query=query
        )

    async def create_code(self) -> models.SlackCode:
        """Creates a code with which the user of the key connects an account of Slack.

        The user sends ``link CODE`` to the bot in a direct message within ten minutes. An earlier
        code of the user is no longer valid.

        Raises:
            PermissionDeniedError: The key belongs to no user, or is limited.
        """
        return await self._transport.get(models.SlackCode, op.CREATE_SLACK_CODE)
