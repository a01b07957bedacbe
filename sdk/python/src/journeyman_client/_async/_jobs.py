"""The operations of jobs, messages, runs and events."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

from typing_extensions import Unpack

from .. import _operations as op
from .. import models
from .._core import LONGEST_MESSAGE_POLL, LONGEST_POLL, Wait, page_of, parse, sent_message_id
from .._events import Event, read_event_page
from ..errors import WaitTimeoutError
from ._job import AsyncJob, AsyncSentMessage
from ._paging import AsyncPager
from ._streams import AsyncFeedStream, AsyncJobEventStream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import httpx

    from .. import params
    from .._core import QueryValue
    from .._operations import Operation
    from ._client import AsyncJourneyman


_RECORDS = page_of(models.JobPage, lambda page: page.jobs)
_DETAILS = page_of(models.JobDetailsPage, lambda page: page.jobs)
_MESSAGES = page_of(models.MessageList, lambda page: page.messages)
_RUNS = page_of(models.RunList, lambda page: page.runs)
_PULLS = page_of(models.JobPullList, lambda page: page.pulls)
_FEED = page_of(models.ProjectEventPage, lambda page: page.events)


class AsyncJobs:
    """The jobs: ``client.jobs``."""

    def __init__(self, client: AsyncJourneyman) -> None:
        self._client = client
        self._transport = client._transport

    async def create(
        self,
        project: str,
        *,
        idempotency_key: str | None = None,
        **job: Unpack[params.CreateJob],
    ) -> AsyncJob:
        """Creates a job, and returns at once; the agent works afterward.

        Args:
            project: The ID of the project.
            idempotency_key: A key of 1 to 255 ASCII characters. A repetition within 24 hours
                returns the same job. By default, a random key protects only the retries of this
                call.
            job: The fields of the job: ``prompt``, and optionally ``ref``, ``model``, ``agent``,
                ``branch``, ``draft``, ``title``, ``pull_request``, ``labels`` and ``metadata``.

        Raises:
            BranchTakenError: Another job of the project works on this branch.
            IdempotencyKeyReusedError: The idempotency key was used with a different job.
            NotFoundError: The project does not exist.
            RateLimitedError: The hourly limit is used up.
            ValueError: A field is unknown, or has a wrong type.
        """
        response = await self._transport.call(
            op.CREATE_JOB,
            project,
            body=models.CreateJob.model_validate(job),
            idempotency_key=idempotency_key,
        )
        return self._job(project, response)

    async def get(self, project: str, job: str, *, wait: int = 0) -> AsyncJob:
        """Returns a job.

        Args:
            project: The ID of the project.
            job: The ID of the job.
            wait: The longest time in seconds, up to 60, for which the server holds the request
                while the job is active.

        Raises:
            JobNotFoundError: The job does not exist.
        """
        return await self._get(project, job, wait)

    async def _get(self, project: str, job: str, hold: int, wait: Wait | None = None) -> AsyncJob:
        query = {"wait": hold or None}
        response = await self._transport.call(
            op.GET_JOB, project, job, query=query, extra_time=hold, wait=wait
        )
        return self._job(project, response)

    async def wait(self, project: str, job: str, *, timeout: float | None = None) -> AsyncJob:
        """Waits until a job is ``completed``, ``archived`` or ``failed``, and returns it.

        Args:
            project: The ID of the project.
            job: The ID of the job.
            timeout: The longest time to wait in seconds, of which a part counts as a whole one;
                ``None`` for no limit.

        Raises:
            JobNotFoundError: The job does not exist.
            WaitTimeoutError: The job was still active after this time.
        """
        wait = Wait(timeout)
        while True:
            begin = time.monotonic()
            found = await self._get(project, job, wait.hold(LONGEST_POLL), wait)
            if found.status != "active":
                return found
            if wait.is_over:
                raise WaitTimeoutError(f"the job {job} is still active after {timeout} s")
            await asyncio.sleep(wait.pause(begin))

    def list(
        self,
        project: str | None = None,
        *,
        status: models.Status | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        q: str | None = None,
        label: str | Sequence[str] | None = None,
        metadata: Mapping[str, str] | None = None,
        agent: str | None = None,
        author: str | None = None,
        branch: str | None = None,
        pull_request: int | None = None,
        page_size: int | None = None,
        cursor: str | None = None,
    ) -> AsyncPager[models.JobDetails]:
        """Lists jobs with their details, newest first.

        Args:
            project: The ID of a project; by default, all projects that the key may see.
            status: Only jobs with this status.
            created_after: Only jobs created after this time, which has a time zone.
            created_before: Only jobs created before this time, which has a time zone.
            q: Only jobs whose title contains this text.
            label: Only jobs with this label, or with all of these labels.
            metadata: Only jobs with all of these entries in their metadata.
            agent: Only jobs of this agent.
            author: Only jobs whose first message has this author.
            branch: Only jobs that work on this branch.
            pull_request: Only jobs that have worked on a pull request with this number.
            page_size: The number of jobs in one response, up to 100.
            cursor: The cursor of a page, to continue an earlier list.
        """
        query: dict[str, QueryValue] = {
            "status": status,
            "createdAfter": created_after,
            "createdBefore": created_before,
            "q": q,
            "label": label,
            "metadata": metadata,
            "agent": agent,
            "author": author,
            "branch": branch,
            "pullRequest": pull_request,
            "limit": page_size,
            "cursor": cursor,
        }
        operation = op.LIST_ALL_JOBS if project is None else op.LIST_PROJECT_JOBS
        path = () if project is None else (project,)
        return AsyncPager(self._transport, _DETAILS, operation, *path, query=query)

    def list_records(
        self,
        project: str,
        *,
        status: models.Status | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        q: str | None = None,
        label: str | Sequence[str] | None = None,
        metadata: Mapping[str, str] | None = None,
        agent: str | None = None,
        author: str | None = None,
        branch: str | None = None,
        pull_request: int | None = None,
        page_size: int | None = None,
        cursor: str | None = None,
    ) -> AsyncPager[models.Job]:
        """Lists the records of a project's jobs, newest first; for the arguments, see ``list``."""
        query: dict[str, QueryValue] = {
            "status": status,
            "createdAfter": created_after,
            "createdBefore": created_before,
            "q": q,
            "label": label,
            "metadata": metadata,
            "agent": agent,
            "author": author,
            "branch": branch,
            "pullRequest": pull_request,
            "limit": page_size,
            "cursor": cursor,
        }
        return AsyncPager(self._transport, _RECORDS, op.LIST_JOBS, project, query=query)

    async def details(self, project: str, job: str) -> models.JobDetails:
        """Returns what the record does not contain, such as labels, usage, and a failure."""
        return await self._transport.get(models.JobDetails, op.GET_JOB_DETAILS, project, job)

    async def cancel(
        self, project: str, job: str, *, idempotency_key: str | None = None
    ) -> AsyncJob:
        """Stops the run of a job and withdraws its queued messages; the job becomes ``failed``.

        A turn that has already ended is published, and the job becomes ``completed``.
        """
        return await self._act(op.CANCEL_JOB, project, job, idempotency_key)

    async def archive(
        self, project: str, job: str, *, idempotency_key: str | None = None
    ) -> AsyncJob:
        """Archives a job, which then takes no messages; an active job is canceled first."""
        return await self._act(op.ARCHIVE_JOB, project, job, idempotency_key)

    async def unarchive(
        self, project: str, job: str, *, idempotency_key: str | None = None
    ) -> AsyncJob:
        """Restores the status that a job had before it was archived.

        Raises:
            BranchTakenError: Another job works on its branch now.
        """
        return await self._act(op.UNARCHIVE_JOB, project, job, idempotency_key)

    async def retry(
        self, project: str, job: str, *, idempotency_key: str | None = None
    ) -> AsyncJob:
        """Starts the next attempt of a job that waits for an external cause to pass."""
        return await self._act(op.RETRY_JOB, project, job, idempotency_key)

    async def delete(
        self, project: str, job: str, *, if_match: str | models.Job | None = None
    ) -> None:
        """Deletes a job with its messages, runs and events.

        Args:
            project: The ID of the project.
            job: The ID of the job.
            if_match: A record, or its ETag: the job is deleted only if this is still its record.

        Raises:
            JobBusyError: The job is active.
            PreconditionFailedError: The record has changed.
        """
        await self._transport.call(op.DELETE_JOB, project, job, if_match=if_match)

    def pulls(
        self, project: str, job: str, *, page_size: int | None = None, cursor: str | None = None
    ) -> AsyncPager[models.JobPull]:
        """Lists the pull requests of a job, oldest first."""
        query = {"limit": page_size, "cursor": cursor}
        return AsyncPager(self._transport, _PULLS, op.LIST_JOB_PULLS, project, job, query=query)

    async def checks(self, project: str, job: str) -> models.JobChecks:
        """Returns the checks of the newest commit that a job has pushed."""
        return await self._transport.get(models.JobChecks, op.GET_JOB_CHECKS, project, job)

    async def diff(self, project: str, job: str) -> str:
        """Returns the changes of a job as a unified diff; it is empty without changes."""
        response = await self._transport.call(op.GET_DIFF, project, job, accept="text/x-diff")
        return response.text

    def events(
        self, project: str, job: str, *, after: int = 0, page_size: int | None = None
    ) -> AsyncPager[Event]:
        """Lists the events of a job so far, oldest first.

        Args:
            project: The ID of the project.
            job: The ID of the job.
            after: Only events with a higher sequence number.
            page_size: The number of events in one response, up to 1000.
        """
        query = {"after": after, "limit": page_size}
        return AsyncPager(
            self._transport,
            read_event_page,
            op.LIST_EVENTS,
            project,
            job,
            query=query,
            cursor_name="after",
        )

    def stream_events(
        self,
        project: str,
        job: str,
        *,
        after: int = 0,
        follow: bool = False,
        reconnect_timeout: float | None = 300.0,
    ) -> AsyncJobEventStream:
        """Streams the events of a job: first the stored ones, and then new ones.

        Args:
            project: The ID of the project.
            job: The ID of the job.
            after: Only events with a higher sequence number.
            follow: ``True`` to keep the stream open when the job is not active.
            reconnect_timeout: The longest time in seconds for which the stream tries to reconnect;
                ``None`` for no limit.

        The iteration raises the errors of the connection, and ``JobNotFoundError``.
        """
        return AsyncJobEventStream(
            self._transport, (project, job), after, follow, reconnect_timeout
        )

    async def _act(
        self, operation: Operation, project: str, job: str, idempotency_key: str | None
    ) -> AsyncJob:
        response = await self._transport.call(
            operation, project, job, idempotency_key=idempotency_key
        )
        return self._job(project, response)

    def _job(self, project: str, response: httpx.Response) -> AsyncJob:
        return AsyncJob(self._client, project, parse(models.Job, response))


class AsyncMessages:
    """The messages of jobs: ``client.messages``."""

    def __init__(self, client: AsyncJourneyman) -> None:
        self._client = client
        self._transport = client._transport

    async def send(
        self,
        project: str,
        job: str,
        *,
        prompt: str,
        delivery: models.Delivery | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncSentMessage:
        """Sends a follow-up message, and returns at once; the agent works afterward.

        A completed or failed job becomes active again, with the same branch, session and pull
        request. ``wait`` of the result waits for the end of this message.

        Args:
            project: The ID of the project.
            job: The ID of the job.
            prompt: The prompt for the agent, of 1 to 100,000 characters.
            delivery: The treatment of the message if the job is active: ``queue``, the default,
                ``interrupt``, or ``reject``.
            idempotency_key: A key of 1 to 255 ASCII characters. A repetition within 24 hours
                returns the same message. By default, a random key protects only the retries of this
                call.

        Raises:
            IdempotencyKeyReusedError: The idempotency key was used with a different message.
            JobArchivedError: The job is archived. Nothing is stored.
            JobBusyError: The job is active, and ``delivery`` is ``reject``. Nothing is stored.
            JobNotFoundError: The job does not exist.
            QueueFullError: 100 messages wait already.
            RateLimitedError: The hourly limit is used up.
        """
        message = {"prompt": prompt, "delivery": delivery}
        response = await self._transport.call(
            op.SEND_MESSAGE,
            project,
            job,
            body=models.SendMessage.model_validate(
                {name: value for name, value in message.items() if value is not None}
            ),
            idempotency_key=idempotency_key,
        )
        found = AsyncJob(self._client, project, parse(models.Job, response))
        return AsyncSentMessage(self._client, found, sent_message_id(response))

    async def get(self, project: str, job: str, message: str) -> models.Message:
        """Returns a message with its receipt.

        Raises:
            NotFoundError: The job or the message does not exist.
        """
        return await self._get(project, job, message)

    async def _get(
        self, project: str, job: str, message: str, wait: Wait | None = None
    ) -> models.Message:
        return await self._transport.get(
            models.Message, op.GET_MESSAGE, project, job, message, wait=wait
        )

    async def wait(
        self, project: str, job: str, message: str, *, timeout: float | None = None
    ) -> models.Message:
        """Waits until the status of a message is final, and returns the message.

        A message that failed is not an error: look at its ``status``.

        Args:
            project: The ID of the project.
            job: The ID of the job.
            message: The ID of the message.
            timeout: The longest time to wait in seconds, of which a part counts as a whole one;
                ``None`` for no limit.

        Raises:
            NotFoundError: The job or the message does not exist.
            WaitTimeoutError: The message was still queued or in work after this time.
        """
        wait = Wait(timeout)
        begin = -math.inf
        while True:
            found = await self._get(project, job, message, wait)
            if found.finished_at is not None:
                return found
            if wait.is_over:
                raise WaitTimeoutError(f"the message {message} has not ended after {timeout} s")
            await asyncio.sleep(wait.pause(begin))
            begin = time.monotonic()
            await self._client.jobs._get(project, job, wait.hold(LONGEST_MESSAGE_POLL), wait)

    def list(
        self, project: str, job: str, *, page_size: int | None = None, cursor: str | None = None
    ) -> AsyncPager[models.Message]:
        """Lists the messages of a job with their receipts, in the order of their acceptance."""
        query = {"limit": page_size, "cursor": cursor}
        return AsyncPager(self._transport, _MESSAGES, op.LIST_MESSAGES, project, job, query=query)

    async def withdraw(self, project: str, job: str, message: str) -> AsyncJob:
        """Withdraws a queued message.

        Raises:
            MessageAlreadyDeliveredError: The message is not queued.
        """
        response = await self._transport.call(op.WITHDRAW_MESSAGE, project, job, message)
        return AsyncJob(self._client, project, parse(models.Job, response))


class AsyncRuns:
    """The runs of jobs, which are the attempts at their messages: ``client.runs``."""

    def __init__(self, client: AsyncJourneyman) -> None:
        self._transport = client._transport

    def list(
        self, project: str, job: str, *, page_size: int | None = None, cursor: str | None = None
    ) -> AsyncPager[models.Run]:
        """Lists the runs of a job, oldest first."""
        query = {"limit": page_size, "cursor": cursor}
        return AsyncPager(self._transport, _RUNS, op.LIST_RUNS, project, job, query=query)


class AsyncEvents:
    """The feed, which has the events of all jobs: ``client.events``."""

    def __init__(self, client: AsyncJourneyman) -> None:
        self._transport = client._transport

    def list(
        self,
        project: str | None = None,
        *,
        types: Sequence[str] | None = None,
        cursor: str | None = None,
        page_size: int | None = None,
    ) -> AsyncPager[models.ProjectEvent]:
        """Lists the events so far, oldest first. They are stored for 30 days.

        To continue later, store ``next_cursor`` of the last page of ``pages()``.

        Args:
            project: The ID of a project; by default, all projects that the key may see.
            types: Only events of these types, such as ``job.completed``.
            cursor: The cursor of a page, or the ID of an event: only events after it.
            page_size: The number of events in one response, up to 100.

        The iteration raises ``CursorExpiredError`` if events after the cursor were removed.
        """
        query: dict[str, QueryValue] = {"type": types, "cursor": cursor, "limit": page_size}
        operation = op.LIST_ALL_EVENTS if project is None else op.LIST_PROJECT_EVENTS
        path = () if project is None else (project,)
        return AsyncPager(self._transport, _FEED, operation, *path, query=query)

    def stream(
        self,
        project: str | None = None,
        *,
        types: Sequence[str] | None = None,
        cursor: str | None = None,
        reconnect_timeout: float | None = 300.0,
    ) -> AsyncFeedStream:
        """Streams events as they come, until the stream is closed.

        Args:
            project: The ID of a project; by default, all projects that the key may see.
            types: Only events of these types, such as ``job.completed``.
            cursor: The cursor of a page, or the ID of an event: the stream begins after it. By
                default, it begins with the next event after it has connected, which it does in the
                first iteration. See also ``newest_cursor``.
            reconnect_timeout: The longest time in seconds for which the stream tries to reconnect;
                ``None`` for no limit.

        The iteration raises the errors of the connection, and ``CursorExpiredError`` if events
        after the cursor were removed.
        """
        return AsyncFeedStream(self._transport, project, types, cursor, reconnect_timeout)

    async def newest_cursor(self) -> str:
        """Returns the cursor after the newest event.

        A stream that begins there has the events from now on, also if it connects later.
        """
        async with self.stream() as stream:
            return await stream._begin()
