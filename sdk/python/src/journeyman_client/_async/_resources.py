"""The operations of projects, pull requests, code hosts, keys, webhooks, and the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from typing_extensions import Unpack

from .. import _operations as op
from .. import models
from .._core import page_of
from ._paging import AsyncPager

if TYPE_CHECKING:
    import builtins
    from collections.abc import Sequence
    from datetime import date, datetime

    from .. import params
    from .._core import QueryValue
    from ._client import AsyncJourneyman

_PROJECTS = page_of(models.ProjectList, lambda page: page.projects)
_PULLS = page_of(models.ProjectPullList, lambda page: page.pulls)
_CODE_HOSTS = page_of(models.CodeHostList, lambda page: page.code_hosts)
_INBOX = page_of(models.InboxPage, lambda page: page.events)
_KEYS = page_of(models.KeyList, lambda page: page.keys)
_WEBHOOKS = page_of(models.WebhookList, lambda page: page.webhooks)
_DELIVERIES = page_of(models.DeliveryPage, lambda page: page.deliveries)
_AUDIT = page_of(models.AuditPage, lambda page: page.entries)

UsageGroup = Literal["day", "project", "model", "author", "key"]


class AsyncProjects:
    """The projects: ``client.projects``."""

    def __init__(self, client: AsyncJourneyman) -> None:
        self._transport = client._transport

    async def create(
        self, *, idempotency_key: str | None = None, **project: Unpack[params.CreateProject]
    ) -> models.Project:
        """Creates a project.

        Args:
            idempotency_key: A key of 1 to 255 ASCII characters. A repetition within 24 hours
                returns the same project.
            project: The fields of the project: ``id``, ``repository``, and optionally the others.

        Raises:
            ConflictError: A project with this ID exists (``project_exists``).
            ValueError: A field is unknown, or has a wrong type.
        """
        return await self._transport.get(
            models.Project,
            op.CREATE_PROJECT,
            body=models.CreateProject.model_validate(project),
            idempotency_key=idempotency_key,
        )

    async def get(self, project: str) -> models.Project:
        """Returns a project. The values of secrets are never returned."""
        return await self._transport.get(models.Project, op.GET_PROJECT, project)

    def list(
        self, *, page_size: int | None = None, cursor: str | None = None
    ) -> AsyncPager[models.Project]:
        """Lists the projects that the key may see, ordered by ID."""
        query = {"limit": page_size, "cursor": cursor}
        return AsyncPager(self._transport, _PROJECTS, op.LIST_PROJECTS, query=query)

    async def update(
        self,
        project: str,
        *,
        if_match: str | models.Project | None = None,
        **changes: Unpack[params.ProjectChanges],
    ) -> models.Project:
        """Changes a project.

        Args:
            project: The ID of the project.
            if_match: A project that was read earlier, or its ETag: the change is refused if the
                project has changed since then.
            changes: The fields to change. ``None`` restores the default of a field, and removes an
                entry of ``environment``, ``secrets`` or ``secret_uses``.

        Raises:
            PreconditionFailedError: The project has changed.
            ValueError: A field is unknown, or has a wrong type.
        """
        return await self._transport.get(
            models.Project,
            op.CHANGE_PROJECT,
            project,
            body=models.ProjectChanges.model_validate(changes),
            if_match=if_match,
        )

    async def delete(self, project: str, *, if_match: str | models.Project | None = None) -> None:
        """Deletes a project with its jobs, their logs, and its secrets; the repository stays.

        Raises:
            ConflictError: The project has active jobs (``project_busy``).
            PreconditionFailedError: The project has changed.
        """
        await self._transport.call(op.DELETE_PROJECT, project, if_match=if_match)

    async def test(
        self, project: str, **changes: Unpack[params.ProjectChanges]
    ) -> builtins.list[models.Finding]:
        """Tests whether jobs can work on the repository after these changes. Stores nothing.

        Raises:
            APIError: The repository cannot be read or pushed to (422).
        """
        body = models.ProjectChanges.model_validate(changes)
        found = await self._transport.get(models.FindingList, op.TEST_PROJECT, project, body=body)
        return found.findings

    async def test_new(
        self, **project: Unpack[params.CreateProject]
    ) -> builtins.list[models.Finding]:
        """Tests whether jobs could work on the repository of a new project. Stores nothing.

        Raises:
            APIError: The repository cannot be read or pushed to (422).
        """
        body = models.CreateProject.model_validate(project)
        found = await self._transport.get(models.FindingList, op.TEST_NEW_PROJECT, body=body)
        return found.findings


class AsyncPulls:
    """The pull requests of projects: ``client.pulls``. Those of one job: ``client.jobs.pulls``."""

    def __init__(self, client: AsyncJourneyman) -> None:
        self._transport = client._transport

    def list(
        self,
        project: str,
        *,
        state: Literal["open", "merged", "closed"] | None = None,
        page_size: int | None = None,
        cursor: str | None = None,
    ) -> AsyncPager[models.ProjectPull]:
        """Lists the pull requests of a project in a state, by default ``open``, newest first.

        On other code hosts than the built-in one, these are those of jobs.
        """
        query = {"state": state, "limit": page_size, "cursor": cursor}
        return AsyncPager(self._transport, _PULLS, op.LIST_PULLS, project, query=query)

    async def get(self, project: str, number: int) -> models.ProjectPull:
        """Returns a pull request of the built-in code host, and whether it can be merged now.

        Raises:
            NotFoundError: The pull request does not exist (``pull_request_not_found``).
        """
        return await self._transport.get(models.ProjectPull, op.GET_PULL, project, str(number))

    async def open(self, project: str, **new: Unpack[params.OpenPullRequest]) -> models.ProjectPull:
        """Opens a pull request on the built-in code host for a branch that was pushed.

        If the branch has an open one with the same values, returns that one.

        Args:
            project: The ID of the project.
            new: The fields of the pull request: ``head``, ``title``, and optionally the others.

        Raises:
            ConflictError: The branch has another open pull request (``pull_request_exists``).
            BadRequestError: The branch has no commits that the base does not have.
        """
        body = models.OpenPullRequest.model_validate(new)
        return await self._transport.get(models.ProjectPull, op.OPEN_PULL, project, body=body)

    async def merge(
        self, project: str, number: int, **how: Unpack[params.MergePullRequest]
    ) -> models.ProjectPull:
        """Merges a pull request of the built-in code host. Merging it again changes nothing.

        Args:
            project: The ID of the project.
            number: The number of the pull request.
            how: ``method``: ``merge`` (the default), ``squash`` or ``rebase``.

        Raises:
            ConflictError: The pull request is closed (``pull_request_ended``), or its branches
                conflict or cannot be rebased (``pull_request_conflict``).
            NotFoundError: The pull request does not exist (``pull_request_not_found``).
        """
        body = models.MergePullRequest.model_validate(how) if how else None
        target = (project, str(number))
        return await self._transport.get(models.ProjectPull, op.MERGE_PULL, *target, body=body)


class AsyncCodeHosts:
    """The code hosts: ``client.code_hosts``."""

    def __init__(self, client: AsyncJourneyman) -> None:
        self._transport = client._transport

    async def create(
        self, *, idempotency_key: str | None = None, **code_host: Unpack[params.CreateCodeHost]
    ) -> models.InstalledCodeHost:
        """Creates a code host.

        Args:
            idempotency_key: A key of 1 to 255 ASCII characters. A repetition within 24 hours
                returns the same code host.
            code_host: The fields of the code host: ``id``, ``kind``, ``url``, and optionally the
                others.

        Raises:
            ConflictError: A code host with this ID or address exists (``code_host_exists``).
        """
        return await self._transport.get(
            models.InstalledCodeHost,
            op.CREATE_CODE_HOST,
            body=models.CreateCodeHost.model_validate(code_host),
            idempotency_key=idempotency_key,
        )

    async def get(self, code_host: str) -> models.InstalledCodeHost:
        """Returns a code host, and which of its secrets are set."""
        return await self._transport.get(models.InstalledCodeHost, op.GET_CODE_HOST, code_host)

    def list(
        self, *, page_size: int | None = None, cursor: str | None = None
    ) -> AsyncPager[models.InstalledCodeHost]:
        """Lists the code hosts of the configuration file and of the database, ordered by ID."""
        query = {"limit": page_size, "cursor": cursor}
        return AsyncPager(self._transport, _CODE_HOSTS, op.LIST_CODE_HOSTS, query=query)

    async def replace(
        self,
        code_host: str,
        *,
        if_match: str | models.InstalledCodeHost | None = None,
        **fields: Unpack[params.ReplaceCodeHost],
    ) -> models.InstalledCodeHost:
        """Replaces the fields of a code host; those that are left out get their defaults.

        Secrets that are left out are kept, and ``None`` removes them.

        Raises:
            ConflictError: The configuration file defines it (``code_host_configured``).
            PreconditionFailedError: The code host has changed.
        """
        return await self._transport.get(
            models.InstalledCodeHost,
            op.REPLACE_CODE_HOST,
            code_host,
            body=models.ReplaceCodeHost.model_validate(fields),
            if_match=if_match,
        )

    async def delete(
        self, code_host: str, *, if_match: str | models.InstalledCodeHost | None = None
    ) -> None:
        """Removes a code host with its secrets.

        Raises:
            ConflictError: A project names it (``code_host_used``).
            PreconditionFailedError: The code host has changed.
        """
        await self._transport.call(op.REMOVE_CODE_HOST, code_host, if_match=if_match)

    async def check(self, code_host: str) -> builtins.list[models.Finding]:
        """Tests a code host; see ``health`` of each finding. Stores nothing."""
        found = await self._transport.get(models.FindingList, op.CHECK_CODE_HOST, code_host)
        return found.findings


class AsyncInbox:
    """The events that code hosts have sent: ``client.inbox``."""

    def __init__(self, client: AsyncJourneyman) -> None:
        self._transport = client._transport

    def list(
        self,
        project: str | None = None,
        *,
        state: models.InboxState | None = None,
        outcome: str | None = None,
        page_size: int | None = None,
        cursor: str | None = None,
    ) -> AsyncPager[models.InboxEvent]:
        """Lists events, newest first.

        Args:
            project: The ID of a project; by default, all events.
            state: Only events in this state.
            outcome: Only events with this outcome, such as ``message``.
            page_size: The number of events in one response, up to 100.
            cursor: The cursor of a page, to continue an earlier list.
        """
        query: dict[str, QueryValue] = {
            "state": state,
            "outcome": outcome,
            "limit": page_size,
            "cursor": cursor,
        }
        operation = op.LIST_INBOX if project is None else op.LIST_PROJECT_INBOX
        path = () if project is None else (project,)
        return AsyncPager(self._transport, _INBOX, operation, *path, query=query)


class AsyncKeys:
    """The API keys: ``client.keys``."""

    def __init__(self, client: AsyncJourneyman) -> None:
        self._transport = client._transport

    async def create(
        self, *, idempotency_key: str | None = None, **key: Unpack[params.CreateKey]
    ) -> models.CreatedKey:
        """Creates a key. Only the result contains its ``secret``.

        Args:
            idempotency_key: A key of 1 to 255 ASCII characters. A repetition within 24 hours
                returns the same key.
            key: The fields of the key: ``name``, and optionally ``scopes``, ``projects``,
                ``expires_at`` and ``allowed_ips``.
        """
        return await self._transport.get(
            models.CreatedKey,
            op.CREATE_KEY,
            body=models.CreateKey.model_validate(key),
            idempotency_key=idempotency_key,
        )

    async def get(self, key: str) -> models.Key:
        """Returns a key without its secret."""
        return await self._transport.get(models.Key, op.GET_KEY, key)

    def list(
        self,
        *,
        origin: str | None = None,
        page_size: int | None = None,
        cursor: str | None = None,
    ) -> AsyncPager[models.Key]:
        """Lists the keys, newest first, including revoked ones.

        Args:
            origin: ``exchanged`` lists the keys that were exchanged for tokens, which are
                not among the others.
            page_size: The number of keys that each request reads.
            cursor: The cursor of the first page to read.
        """
        query = {"origin": origin, "limit": page_size, "cursor": cursor}
        return AsyncPager(self._transport, _KEYS, op.LIST_KEYS, query=query)

    async def revoke(self, key: str, *, if_match: str | models.Key | None = None) -> None:
        """Revokes a key, at once.

        Raises:
            PreconditionFailedError: The key has changed, or was used.
        """
        await self._transport.call(op.REVOKE_KEY, key, if_match=if_match)

    async def rotate(
        self,
        key: str,
        *,
        keep_old_seconds: int = 0,
        if_match: str | models.Key | None = None,
        idempotency_key: str | None = None,
    ) -> models.CreatedKey:
        """Gives a key a new secret, which only the result contains.

        Args:
            key: The ID of the key.
            keep_old_seconds: The time in seconds for which the old secret works too, up to 7 days.
            if_match: A key that was read earlier, or its ETag.
            idempotency_key: A key of 1 to 255 ASCII characters. A repetition within 24 hours
                returns the same secret.

        Raises:
            PreconditionFailedError: The key has changed, or was used.
        """
        return await self._transport.get(
            models.CreatedKey,
            op.ROTATE_KEY,
            key,
            body=models.RotateKey(keep_old_seconds=keep_old_seconds),
            if_match=if_match,
            idempotency_key=idempotency_key,
        )


class AsyncWebhooks:
    """The webhooks of projects: ``client.webhooks``.

    To verify the requests that they send, see :mod:`journeyman_client.webhooks`.
    """

    def __init__(self, client: AsyncJourneyman) -> None:
        self._transport = client._transport

    async def create(
        self,
        project: str,
        *,
        idempotency_key: str | None = None,
        **webhook: Unpack[params.CreateWebhook],
    ) -> models.CreatedWebhook:
        """Creates a webhook. Only the result contains its ``secret``.

        Args:
            project: The ID of the project.
            idempotency_key: A key of 1 to 255 ASCII characters. A repetition within 24 hours
                returns the same webhook.
            webhook: The fields of the webhook: ``url``, and optionally ``events``, ``format`` and
                ``description``.
        """
        return await self._transport.get(
            models.CreatedWebhook,
            op.CREATE_WEBHOOK,
            project,
            body=models.CreateWebhook.model_validate(webhook),
            idempotency_key=idempotency_key,
        )

    async def get(self, project: str, webhook: str) -> models.Webhook:
        """Returns a webhook without its secret."""
        return await self._transport.get(models.Webhook, op.GET_WEBHOOK, project, webhook)

    def list(
        self, project: str, *, page_size: int | None = None, cursor: str | None = None
    ) -> AsyncPager[models.Webhook]:
        """Lists the webhooks of a project, oldest first."""
        query = {"limit": page_size, "cursor": cursor}
        return AsyncPager(self._transport, _WEBHOOKS, op.LIST_WEBHOOKS, project, query=query)

    async def update(
        self,
        project: str,
        webhook: str,
        *,
        if_match: str | models.Webhook | None = None,
        **changes: Unpack[params.ChangeWebhook],
    ) -> models.Webhook:
        """Changes, enables or disables a webhook.

        Args:
            project: The ID of the project.
            webhook: The ID of the webhook.
            if_match: A webhook that was read earlier, or its ETag.
            changes: The fields to change.

        Raises:
            PreconditionFailedError: The webhook has changed.
        """
        return await self._transport.get(
            models.Webhook,
            op.CHANGE_WEBHOOK,
            project,
            webhook,
            body=models.ChangeWebhook.model_validate(changes),
            if_match=if_match,
        )

    async def delete(
        self, project: str, webhook: str, *, if_match: str | models.Webhook | None = None
    ) -> None:
        """Deletes a webhook with its deliveries.

        Raises:
            PreconditionFailedError: The webhook has changed.
        """
        await self._transport.call(op.DELETE_WEBHOOK, project, webhook, if_match=if_match)

    async def rotate(
        self,
        project: str,
        webhook: str,
        *,
        keep_old_seconds: int = 0,
        if_match: str | models.Webhook | None = None,
        idempotency_key: str | None = None,
    ) -> models.CreatedWebhook:
        """Gives a webhook a new secret, which only the result contains.

        Args:
            project: The ID of the project.
            webhook: The ID of the webhook.
            keep_old_seconds: The time in seconds for which requests are signed with the old secret
                too, up to 7 days.
            if_match: A webhook that was read earlier, or its ETag.
            idempotency_key: A key of 1 to 255 ASCII characters. A repetition within 24 hours
                returns the same secret.

        Raises:
            PreconditionFailedError: The webhook has changed.
        """
        return await self._transport.get(
            models.CreatedWebhook,
            op.ROTATE_WEBHOOK,
            project,
            webhook,
            body=models.RotateKey(keep_old_seconds=keep_old_seconds),
            if_match=if_match,
            idempotency_key=idempotency_key,
        )

    async def test(self, project: str, webhook: str) -> models.Attempt:
        """Sends an example event to the endpoint, and returns what it answered."""
        # The server waits up to 10 seconds for the endpoint.
        return await self._transport.get(
            models.Attempt, op.TEST_WEBHOOK, project, webhook, extra_time=10
        )

    def deliveries(
        self,
        project: str,
        webhook: str,
        *,
        state: models.DeliveryStatus | None = None,
        page_size: int | None = None,
        cursor: str | None = None,
    ) -> AsyncPager[models.WebhookDelivery]:
        """Lists the deliveries of a webhook, newest first. They are stored for 30 days."""
        query = {"state": state, "limit": page_size, "cursor": cursor}
        return AsyncPager(
            self._transport, _DELIVERIES, op.LIST_DELIVERIES, project, webhook, query=query
        )

    async def redeliver(self, project: str, webhook: str, delivery: str) -> None:
        """Delivers an event again.

        Raises:
            ConflictError: The webhook is disabled (``webhook_disabled``).
        """
        await self._transport.call(op.REDELIVER, project, webhook, delivery)

    async def replay(self, project: str, webhook: str, *, since: datetime) -> int:
        """Delivers all events since a time again, and returns their number.

        Raises:
            ConflictError: The webhook is disabled (``webhook_disabled``).
        """
        body = models.ReplayWebhook(since=since)
        found = await self._transport.get(
            models.Replayed, op.REPLAY_WEBHOOK, project, webhook, body=body
        )
        return found.deliveries


class AsyncUsage:
    """The usage of models: ``client.usage``."""

    def __init__(self, client: AsyncJourneyman) -> None:
        self._transport = client._transport

    async def report(
        self,
        *,
        from_: date | None = None,
        to: date | None = None,
        group_by: Sequence[UsageGroup] = (),
        project: str | Sequence[str] | None = None,
        model: str | None = None,
        author: str | None = None,
        key: str | None = None,
    ) -> models.UsageReport:
        """Returns the tokens and the cost of the runs that ended in a period.

        Args:
            from_: The first day, in UTC; by default, 29 days before the last one.
            to: The last day, in UTC; by default, today.
            group_by: The properties by which lines group runs; without any, there is one line.
            project: Only runs of this project, or of these projects.
            model: Only runs of jobs with this model.
            author: Only runs of messages of this author.
            key: Only runs of messages that were sent with the API key with this ID.
        """
        query = _usage(from_, to, group_by, project, model, author, key)
        return await self._transport.get(models.UsageReport, op.GET_USAGE, query=query)

    async def csv(
        self,
        *,
        from_: date | None = None,
        to: date | None = None,
        group_by: Sequence[UsageGroup] = (),
        project: str | Sequence[str] | None = None,
        model: str | None = None,
        author: str | None = None,
        key: str | None = None,
    ) -> str:
        """Returns the report as CSV; for the arguments, see ``report``."""
        query = _usage(from_, to, group_by, project, model, author, key)
        query["format"] = "csv"
        response = await self._transport.call(op.GET_USAGE, query=query, accept="text/csv")
        return response.text


def _usage(
    from_: date | None,
    to: date | None,
    group_by: Sequence[UsageGroup],
    project: str | Sequence[str] | None,
    model: str | None,
    author: str | None,
    key: str | None,
) -> dict[str, QueryValue]:
    return {
        "from": from_,
        "to": to,
        "groupBy": group_by,
        "project": project,
        "model": model,
        "author": author,
        "key": key,
    }


class AsyncAudit:
    """The audit log: ``client.audit``."""

    def __init__(self, client: AsyncJourneyman) -> None:
        self._transport = client._transport

    def list(
        self, *, page_size: int | None = None, cursor: str | None = None
    ) -> AsyncPager[models.AuditEntry]:
        """Lists the entries, newest first."""
        query = {"limit": page_size, "cursor": cursor}
        return AsyncPager(self._transport, _AUDIT, op.LIST_AUDIT, query=query)

    async def export(self) -> str:
        """Returns all entries as CSV, newest first."""
        response = await self._transport.call(op.EXPORT_AUDIT, accept="text/csv")
        return response.text
