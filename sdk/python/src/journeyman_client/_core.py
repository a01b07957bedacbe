"""Requests, retries and responses of both clients, without input and output."""

from __future__ import annotations

import json
import math
import os
import random
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timezone
from typing import Any, Generic, TypeVar
from urllib.parse import quote, unquote

import httpx
from pydantic import ValidationError

from . import _operations
from ._model import Model
from ._operations import Operation
from ._version import VERSION
from .errors import (
    APIError,
    ConnectionFailedError,
    InvalidResponseError,
    JourneymanError,
    RequestTimeoutError,
    ServerError,
)

T = TypeVar("T")
M = TypeVar("M", bound=Model)

DEFAULT_URL = "http://127.0.0.1:8080"

#: The longest time in seconds for which the server holds a request for a job that is active. Many
#: proxies close a connection that is quiet for a minute.
LONGEST_POLL = 30

#: The same while a message is awaited. The server answers when the job is not active anymore, which
#: can be long after the end of the message if others wait behind it.
LONGEST_MESSAGE_POLL = 5

#: The shortest time in seconds between two requests of a wait, except after a held request. A
#: server that is stopping does not hold requests.
WAIT_PAUSE = 0.5

#: The number of times that each request of a wait is repeated at least: enough for a restart.
WAIT_RETRIES = 10

#: A stream sends a comment every 15 seconds. After this time in seconds without one, it is dead.
STREAM_SILENCE = 45.0

_FIRST_DELAY = 0.5
_LONGEST_DELAY = 8.0
#: A longer ``Retry-After`` in seconds is left to the caller.
_LONGEST_RETRY_AFTER = 60.0

#: POST requests whose repetition does no harm without an idempotency key: they store nothing, or a
#: short-lived key or code that no client has if the response is lost.
_REPEATABLE = frozenset(
    {
        _operations.CHECK_CODE_HOST,
        _operations.CHECK_SLACK_WORKSPACE,
        _operations.CREATE_SLACK_CODE,
        _operations.EXCHANGE_TOKEN,
        _operations.TEST_NEW_PROJECT,
        _operations.TEST_PROJECT,
        _operations.TEST_WEBHOOK,
    }
)

#: The types of the values of query parameters.
QueryValue = str | int | bool | date | datetime | Sequence[str] | Mapping[str, str] | None


@dataclass(frozen=True)
class Config:
    """The settings of a client."""

    url: str
    #: The API key; ``None`` for an operation that needs none.
    key: str | None = field(repr=False)
    timeout: float
    max_retries: int

    @property
    def headers(self) -> dict[str, str]:
        """The headers of all requests."""
        headers = {"User-Agent": f"journeyman-client-python/{VERSION}"}
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        return headers


def configure(url: str | None, key: str | None, timeout: float, max_retries: int) -> Config:
    """Returns the settings; those that are not given come from the environment."""
    key = (key or os.environ.get("JOURNEYMAN_KEY") or "").strip()
    if not key:
        raise ValueError("the API key is missing: pass `key`, or set JOURNEYMAN_KEY")
    if not (key.isascii() and key.isprintable()):
        raise ValueError("the API key contains invalid characters")
    return replace(configure_without_key(url, timeout, max_retries), key=key)


def configure_without_key(url: str | None, timeout: float, max_retries: int) -> Config:
    """Returns the settings for operations that need no key."""
    url = url or os.environ.get("JOURNEYMAN_URL") or DEFAULT_URL
    parsed = httpx.URL(url)
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ValueError("the URL of the server must begin with http:// or https://")
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise ValueError("the URL of the server must have no user, query or fragment")
    if max_retries < 0:
        raise ValueError("max_retries must not be negative")
    return Config(url.rstrip("/"), None, timeout, max_retries)


@dataclass(frozen=True)
class Call:
    """A request."""

    method: str
    url: str
    params: httpx.QueryParams
    headers: dict[str, str]
    content: bytes | None
    timeout: float
    #: ``True`` if a repetition has no further effect.
    is_repeatable: bool

    def with_header(self, name: str, value: str) -> Call:
        """Returns the request with another header."""
        return replace(self, headers={**self.headers, name: value})


def build_call(
    config: Config,
    operation: Operation,
    *path: str,
    query: Mapping[str, QueryValue] | None = None,
    body: Model | None = None,
    if_match: str | Model | None = None,
    idempotency_key: str | None = None,
    accept: str = "application/json",
    extra_time: float = 0,
) -> Call:
    """Returns the request for an operation.

    ``path`` has the values of the placeholders, and ``extra_time`` is the time in seconds that the
    answer may take in addition to the timeout.
    """
    values = iter(path)
    target = re.sub(r"\{\w+\}", lambda _: _segment(next(values)), operation.path)
    headers = {"Accept": accept}
    content = None
    if body is not None:
        document = body.model_dump(mode="json", by_alias=True, exclude_unset=True)
        content = json.dumps(document, ensure_ascii=False).encode()
        headers["Content-Type"] = "application/json"
    if if_match is not None:
        headers["If-Match"] = _tag(if_match)
    if operation.accepts_idempotency_key:
        key = str(uuid.uuid4()) if idempotency_key is None else idempotency_key
        headers["Idempotency-Key"] = key
        is_repeatable = True
    elif operation.method == "POST":
        is_repeatable = operation in _REPEATABLE
    else:
        # With If-Match, a repeated change would be refused because of what it changed itself.
        # Deletions can be repeated, because the server remembers them.
        is_repeatable = operation.method in {"GET", "DELETE"} or if_match is None
    return Call(
        method=operation.method,
        url=config.url + target,
        params=_parameters(query or {}),
        headers=headers,
        content=content,
        timeout=config.timeout + extra_time,
        is_repeatable=is_repeatable,
    )


def _segment(value: str) -> str:
    if value in {"", ".", ".."}:
        raise ValueError(f"an ID must not be {value!r}")
    return quote(value, safe="")


def _tag(value: str | Model) -> str:
    if isinstance(value, str):
        return value
    if value.etag is None:
        raise ValueError("this object has no version: get it again, and pass the result")
    return value.etag


def _parameters(query: Mapping[str, QueryValue]) -> httpx.QueryParams:
    found: list[tuple[str, str | int | float | bool | None]] = []
    for name, value in query.items():
        if value is None:
            continue
        if isinstance(value, Mapping):
            found += [(name, f"{key}:{entry}") for key, entry in value.items()]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            found += [(name, entry) for entry in value]
        else:
            found.append((name, _text(value)))
    return httpx.QueryParams(found)


def _text(value: str | int | bool | date | datetime) -> str:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("a time must have a time zone, such as datetime.timezone.utc")
        return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else str(value)


class Wait:
    """The time that is left of a wait, in which requests are repeated more often than usual."""

    def __init__(self, timeout: float | None) -> None:
        self.timeout = timeout
        self.end = math.inf if timeout is None else time.monotonic() + timeout

    @property
    def is_over(self) -> bool:
        """``True`` after the end."""
        return time.monotonic() >= self.end

    def hold(self, longest: int) -> int:
        """Returns the number of seconds for which the server may hold the next request."""
        return math.ceil(max(0.0, min(longest, self.end - time.monotonic())))

    def pause(self, begin: float) -> float:
        """Returns the time in seconds until the next request; the last one began at ``begin``."""
        now = time.monotonic()
        return max(0.0, min(begin + WAIT_PAUSE, self.end) - now)


def from_transport(error: httpx.RequestError, config: Config) -> ConnectionFailedError:
    """Returns the exception for a request without an answer."""
    kind = RequestTimeoutError if isinstance(error, httpx.TimeoutException) else None
    reason = str(error) or type(error).__name__
    return (kind or ConnectionFailedError)(f"no answer from {config.url}: {reason}")


def retry_delay(call: Call, attempt: int, error: JourneymanError) -> float | None:
    """Returns the time in seconds until the next attempt; ``None`` if there should be none.

    ``attempt`` is the number of attempts so far.
    """
    delay: float = min(_LONGEST_DELAY, _FIRST_DELAY * 2 ** (attempt - 1)) * random.uniform(0.5, 1)
    if isinstance(error, ConnectionFailedError):
        never_sent = isinstance(
            error.__cause__, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout
        )
        return delay if never_sent or call.is_repeatable else None
    if not isinstance(error, APIError):
        return None
    if error.retry_after is not None and error.retry_after > _LONGEST_RETRY_AFTER:
        return None
    # The server itself sends these only if it has stored nothing.
    nothing_stored = error.status == 429 or error.code == "changed_meanwhile"
    nothing_stored = nothing_stored or (error.status == 503 and error.code is not None)
    is_temporary = isinstance(error, ServerError) and error.status in {502, 503, 504}
    if nothing_stored or (is_temporary and call.is_repeatable):
        return max(delay, error.retry_after or 0)
    return None


def parse(model: type[M], response: httpx.Response) -> M:
    """Returns the object in a response."""
    try:
        found = model.model_validate_json(response.content)
    except ValidationError as error:
        raise _invalid(response) from error
    found._etag = response.headers.get("etag")
    return found


def sent_message_id(response: httpx.Response) -> str:
    """Returns the ID of the message that a request sent."""
    found = re.search(r"/message/([^/?#]+)$", response.headers.get("location", ""))
    if found is None:
        raise InvalidResponseError(
            "the server accepted the message without its ID; is it older than this package?"
        )
    return unquote(found[1])


def parse_json(response: httpx.Response) -> Any:
    """Returns the JSON document in a response."""
    try:
        return response.json()
    except ValueError as error:
        raise _invalid(response) from error


def _invalid(response: httpx.Response) -> InvalidResponseError:
    request = response.request
    return InvalidResponseError(
        f"the answer to {request.method} {request.url.path} is not one of this interface; "
        "is the server a Journeyman of the version of this package or later?"
    )


@dataclass(frozen=True)
class Page(Generic[T]):
    """A page of a list."""

    #: The entries of the page.
    items: list[T]
    #: The cursor of the next page. In the feed, it is always set: use it again later.
    next_cursor: str | None
    #: ``True`` if there is another page.
    has_more: bool


PageReader = Callable[[httpx.Response], Page[T]]


def page_of(model: type[M], items: Callable[[M], list[T]]) -> PageReader[T]:
    """Returns a function that reads pages of this type; ``items`` returns the entries of one."""

    def read(response: httpx.Response) -> Page[T]:
        page = parse(model, response)
        cursor: str | None = getattr(page, "next_cursor", None)
        return Page(items(page), cursor, getattr(page, "has_more", cursor is not None))

    return read
