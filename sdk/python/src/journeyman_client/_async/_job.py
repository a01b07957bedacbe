"""A job, with methods for its operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import models

if TYPE_CHECKING:
    from datetime import datetime

    from .._events import Event
    from ._client import AsyncJourneyman
    from ._paging import AsyncPager
    from ._streams import AsyncJobEventStream


class AsyncSentMessage:
    """A message that was sent to a job.

    Attributes:
        id: The ID of the message.
        job: The job, with its record after the message was accepted.
    """

    def __init__(self, client: AsyncJourneyman, job: AsyncJob, message: str) -> None:
        self._client = client
        self.job = job
        self.id = message

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.job.project}/{self.job.id}/{self.id}>"

    async def get(self) -> models.Message:
        """Returns the message with its receipt."""
        return await self._client.messages.get(self.job.project, self.job.id, self.id)

    async def wait(self, timeout: float | None = None) -> models.Message:
        """Waits for the final status of the message, refreshes the job, and returns the message.

        A message that failed is not an error: look at its ``status``.

        Args:
            timeout: The longest time to wait in seconds, of which a part counts as a whole one;
                ``None`` for no limit.

        Raises:
            WaitTimeoutError: The message was still queued or in work after this time.
        """
        found = await self._client.messages.wait(
            self.job.project, self.job.id, self.id, timeout=timeout
        )
        await self.job.refresh()
        return found


class AsyncJob:
    """A job.

    The methods that change the job, and ``refresh``, ``wait`` and ``ask``, update ``record``. For
    errors, see the methods of ``client.jobs`` and ``client.messages`` with the same names.

    Attributes:
        project: The ID of the project.
        record: The record of the job, as the server last sent it.
    """

    def __init__(
        self,
        client: AsyncJourneyman,
        project: str,
        record: models.Job,
    ) -> None:
        self._client = client
        self.project = project
        self.record = record

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.project}/{self.id} {self.status}>"

    @property
    def id(self) -> str:
        """The ID of the job."""
        return self.record.id

    @property
    def status(self) -> models.Status:
        """``active``, ``completed``, ``archived`` or ``failed``."""
        return self.record.status

    @property
    def source(self) -> models.Source:
        """The repository and the ref from which the job started."""
        return self.record.source

    @property
    def model(self) -> str:
        """The model of the job."""
        return self.record.model

    @property
    def pr_link(self) -> str | None:
        """The URL of the pull request; ``None`` while the job is active, or without changes."""
        return self.record.pr_link

    @property
    def created_at(self) -> datetime:
        """The time of the creation."""
        return self.record.created_at

    @property
    def archived_at(self) -> datetime | None:
        """The time of the archiving; ``None`` if the job is not archived."""
        return self.record.archived_at

    async def refresh(self) -> AsyncJob:
        """Reads the record again, and returns this object."""
        return self._update(await self._client.jobs.get(self.project, self.id))

    async def wait(self, timeout: float | None = None) -> AsyncJob:
        """Waits until the job is not active, and returns this object.

        Args:
            timeout: The longest time to wait in seconds, of which a part counts as a whole one;
                ``None`` for no limit.

        Raises:
            WaitTimeoutError: The job was still active after this time.
        """
        return self._update(await self._client.jobs.wait(self.project, self.id, timeout=timeout))

    async def send(
        self,
        prompt: str,
        *,
        delivery: models.Delivery | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncSentMessage:
        """Sends a follow-up message, and returns at once. See ``messages.send``."""
        sent = await self._client.messages.send(
            self.project,
            self.id,
            prompt=prompt,
            delivery=delivery,
            idempotency_key=idempotency_key,
        )
        return AsyncSentMessage(self._client, self._update(sent.job), sent.id)

    async def ask(
        self,
        prompt: str,
        *,
        delivery: models.Delivery | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> models.Message:
        """Sends a follow-up message, waits for its end, and returns it with its ``answer``.

        A message that failed is not an error: look at its ``status``.

        Args:
            prompt: The prompt for the agent, of 1 to 100,000 characters.
            delivery: See ``messages.send``.
            idempotency_key: See ``messages.send``.
            timeout: The longest time to wait in seconds after the message was sent; ``None`` for no
                limit.

        Raises:
            WaitTimeoutError: The message was still queued or in work after this time.
        """
        sent = await self.send(prompt, delivery=delivery, idempotency_key=idempotency_key)
        return await sent.wait(timeout)

    async def cancel(self, *, idempotency_key: str | None = None) -> AsyncJob:
        """Stops the run and withdraws the queued messages."""
        return self._update(
            await self._client.jobs.cancel(self.project, self.id, idempotency_key=idempotency_key)
        )

    async def archive(self, *, idempotency_key: str | None = None) -> AsyncJob:
        """Archives the job; an active job is canceled first."""
        return self._update(
            await self._client.jobs.archive(self.project, self.id, idempotency_key=idempotency_key)
        )

    async def unarchive(self, *, idempotency_key: str | None = None) -> AsyncJob:
        """Restores the status that the job had before it was archived."""
        return self._update(
            await self._client.jobs.unarchive(
                self.project, self.id, idempotency_key=idempotency_key
            )
        )

    async def retry(self, *, idempotency_key: str | None = None) -> AsyncJob:
        """Starts the next attempt of a job that waits for an external cause."""
        return self._update(
            await self._client.jobs.retry(self.project, self.id, idempotency_key=idempotency_key)
        )

    async def withdraw(self, message: str) -> AsyncJob:
        """Withdraws a queued message."""
        return self._update(await self._client.messages.withdraw(self.project, self.id, message))

    async def delete(self, *, if_match: str | models.Job | None = None) -> None:
        """Deletes the job, which must not be active."""
        await self._client.jobs.delete(self.project, self.id, if_match=if_match)

    async def details(self) -> models.JobDetails:
        """Returns what the record does not contain."""
        return await self._client.jobs.details(self.project, self.id)

    async def answer(self) -> str | None:
        """Returns the answer to the newest message that has one.

        For the answer to a message that you send, use ``ask``, or ``wait`` of the sent message.
        """
        answer = None
        async for message in self.messages():
            answer = answer if message.answer is None else message.answer
        return answer

    async def message(self, message: str) -> models.Message:
        """Returns a message with its receipt."""
        return await self._client.messages.get(self.project, self.id, message)

    def messages(self) -> AsyncPager[models.Message]:
        """Lists the messages with their receipts, in the order of their acceptance."""
        return self._client.messages.list(self.project, self.id)

    def runs(self) -> AsyncPager[models.Run]:
        """Lists the runs, oldest first."""
        return self._client.runs.list(self.project, self.id)

    def pulls(self) -> AsyncPager[models.JobPull]:
        """Lists the pull requests, oldest first."""
        return self._client.jobs.pulls(self.project, self.id)

    async def checks(self) -> models.JobChecks:
        """Returns the checks of the newest commit."""
        return await self._client.jobs.checks(self.project, self.id)

    async def diff(self) -> str:
        """Returns the changes as a unified diff."""
        return await self._client.jobs.diff(self.project, self.id)

    def events(self, *, after: int = 0) -> AsyncPager[Event]:
        """Lists the events so far, oldest first."""
        return self._client.jobs.events(self.project, self.id, after=after)

    def stream_events(
        self,
        *,
        after: int = 0,
        follow: bool = False,
        reconnect_timeout: float | None = 300.0,
    ) -> AsyncJobEventStream:
        """Streams the events until the job is not active. See ``jobs.stream_events``."""
        return self._client.jobs.stream_events(
            self.project,
            self.id,
            after=after,
            follow=follow,
            reconnect_timeout=reconnect_timeout,
        )

    def _update(self, job: AsyncJob) -> AsyncJob:
        self.record = job.record
        return self
