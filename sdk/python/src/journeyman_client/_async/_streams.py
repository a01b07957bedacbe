"""Streams of events that reconnect."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import httpx
from typing_extensions import Self

from .. import _operations as op
from .. import models
from .._core import STREAM_SILENCE, build_call, from_transport, parse, retry_delay
from .._events import ENDS, Event, parse_event, parse_feed_event, read_event_page
from .._sse import EventParser, ServerSentEvent
from ..errors import ConnectionFailedError, InvalidResponseError, JourneymanError
from ._transport import logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from types import TracebackType

    from .._core import Call
    from ._transport import AsyncTransport

T = TypeVar("T")


class AsyncEventStream(Generic[T]):
    """A stream of events, which resumes after a lost connection without a gap or a repetition.

    Iterate over it once. It holds a connection, so close it, or use it as a context manager.

    Attributes:
        last_event_id: The ID of the last event that was returned, or the cursor at which the stream
            begins. To continue in another process, store it after each event.
    """

    def __init__(
        self,
        transport: AsyncTransport,
        call: Call,
        parse: Callable[[Any], T],
        last_event_id: str | None,
        reconnect_timeout: float | None,
    ) -> None:
        self.last_event_id = last_event_id
        self._transport = transport
        self._call = replace(call, timeout=STREAM_SILENCE)
        self._parse = parse
        self._reconnect_timeout = reconnect_timeout
        self._response: httpx.Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None
        self._parser = EventParser()
        self._messages: deque[ServerSentEvent] = deque()
        self._has_connected = False
        self._is_closed = False
        # The number of attempts, and the time, since the server last sent something.
        self._attempts = 0
        self._contact = time.monotonic()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while not self._is_closed:
            while self._messages:
                message = self._messages.popleft()
                event = None
                if message.data is not None and self._is_new(message.id):
                    event = self._parse(_document(message.data))
                self.last_event_id = message.id or self.last_event_id
                if event is not None:
                    return event
            await self._receive()
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connection and ends the iteration."""
        self._is_closed = True
        await self._disconnect()

    def _is_new(self, event_id: str | None) -> bool:
        """Returns whether an event comes after the last one. IDs are increasing numbers."""
        ids = event_id or "", self.last_event_id or ""
        return not all(one.isdecimal() for one in ids) or int(ids[0]) > int(ids[1])

    async def _receive(self) -> None:
        """Reads the next part of the stream. Reconnects if there is no connection."""
        self._attempts += 1
        error: JourneymanError
        try:
            chunk = await anext(self._chunks or await self._connect())
            self._messages.extend(self._parser.feed(chunk))
        except StopAsyncIteration:
            error = ConnectionFailedError("the server ended the stream")
        except httpx.RequestError as cause:
            error = from_transport(cause, self._transport.config)
            error.__cause__ = cause
        except JourneymanError as refusal:
            error = refusal
        else:
            self._attempts = 0
            self._contact = time.monotonic()
            return
        await self._disconnect()
        delay = retry_delay(self._call, self._attempts, error)
        if delay is None or self._is_hopeless():
            raise error
        logger.info("stream %s: %s; reconnect in %.1f s", self._call.url, error, delay)
        await asyncio.sleep(delay)

    def _is_hopeless(self) -> bool:
        if not self._has_connected:
            return self._attempts > self._transport.config.max_retries
        silence = time.monotonic() - self._contact
        return self._reconnect_timeout is not None and silence > self._reconnect_timeout

    async def _connect(self) -> AsyncIterator[bytes]:
        """Opens the stream after the last event."""
        call = self._call
        if self.last_event_id is not None:
            call = call.with_header("Last-Event-ID", self.last_event_id)
        response = self._response = await self._transport.attempt(call, is_stream=True)
        content_type = response.headers.get("content-type", "")
        if not content_type.startswith("text/event-stream"):
            raise InvalidResponseError(f"the server sent {content_type!r} instead of events")
        self._has_connected = True
        self._parser = EventParser()
        self._chunks = response.aiter_bytes()
        return self._chunks

    async def _disconnect(self) -> None:
        response, self._response, self._chunks = self._response, None, None
        if response is not None:
            await response.aclose()


class AsyncJobEventStream(AsyncEventStream[Event]):
    """The stream of a job's events."""

    def __init__(
        self,
        transport: AsyncTransport,
        path: tuple[str, str],
        after: int,
        follow: bool,
        reconnect_timeout: float | None,
    ) -> None:
        call = build_call(transport.config, op.STREAM_EVENTS, *path, accept="text/event-stream")
        super().__init__(transport, call, parse_event, str(after), reconnect_timeout)
        self._path = path
        self._seq = after
        # Unless the stream follows the job, it ends after the event `_end` if there is one.
        self._end: int | None = None
        self._is_end_due = not follow
        self._follow = follow

    async def __anext__(self) -> Event:
        if self._is_end_due and not self._is_closed:
            self._end = await self._find_end()
            self._is_end_due = False
        if self._end is not None and self._seq >= self._end:
            await self.aclose()
        event = await super().__anext__()
        self._seq = event.seq
        if not self._follow:
            is_last = self._end is not None and event.seq >= self._end
            self._is_end_due = is_last or event.type in ENDS
        return event

    async def _find_end(self) -> int | None:
        """Returns the number of the last event; ``None`` if the job is active."""
        job = parse(models.Job, await self._transport.call(op.GET_JOB, *self._path))
        if job.status == "active":
            return None
        after, has_more = self._seq, True
        while has_more:
            query = {"after": after, "limit": 1000}
            page = await self._transport.page(
                read_event_page, op.LIST_EVENTS, *self._path, query=query
            )
            after, has_more = int(page.next_cursor or after), page.has_more
        return after


class AsyncFeedStream(AsyncEventStream[models.ProjectEvent]):
    """The stream of the events of one project or of all projects."""

    def __init__(
        self,
        transport: AsyncTransport,
        project: str | None,
        types: Sequence[str] | None,
        cursor: str | None,
        reconnect_timeout: float | None,
    ) -> None:
        call = build_call(
            transport.config,
            op.STREAM_ALL_EVENTS if project is None else op.STREAM_PROJECT_EVENTS,
            *(() if project is None else (project,)),
            query={"type": types},
            accept="text/event-stream",
        )
        super().__init__(transport, call, parse_feed_event, cursor, reconnect_timeout)

    async def _begin(self) -> str:
        """Connects, and returns the cursor at which the stream begins."""
        while self.last_event_id is None:
            if not self._messages:
                await self._receive()
            elif self._messages[0].data is None:
                self.last_event_id = self._messages.popleft().id
            else:
                raise InvalidResponseError("the stream did not begin with its cursor")
        return self.last_event_id


def _document(data: str) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise InvalidResponseError("the server sent an event that is not JSON") from error
