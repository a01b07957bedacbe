"""Sending of requests, with retries."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from .._core import (
    WAIT_RETRIES,
    Config,
    Page,
    PageReader,
    QueryValue,
    Wait,
    build_call,
    from_transport,
    parse,
    retry_delay,
)
from .._model import Model
from ..errors import JourneymanError, from_response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .._core import Call
    from .._operations import Operation

T = TypeVar("T")
M = TypeVar("M", bound=Model)

logger = logging.getLogger("journeyman_client")


class AsyncTransport:
    """Sends requests to one server."""

    def __init__(self, config: Config, http: httpx.AsyncClient) -> None:
        self.config = config
        self.http = http

    async def send(self, call: Call, wait: Wait | None = None) -> httpx.Response:
        """Sends a request, and repeats it after temporary failures until the end of the wait.

        Raises:
            JourneymanError: The server refused the request, or could not be reached.
        """
        attempt = 1
        most = (
            self.config.max_retries if wait is None else max(WAIT_RETRIES, self.config.max_retries)
        )
        while True:
            try:
                return await self.attempt(call)
            except JourneymanError as error:
                delay = retry_delay(call, attempt, error)
                if delay is None or attempt > most:
                    raise
                if wait is not None and time.monotonic() + delay > wait.end:
                    raise
                logger.info("%s %s: %s; retry in %.1f s", call.method, call.url, error, delay)
                await asyncio.sleep(delay)
                attempt += 1

    async def attempt(self, call: Call, *, is_stream: bool = False) -> httpx.Response:
        """Sends a request once. With ``is_stream``, the body of the response is not read yet."""
        request = self.http.build_request(
            call.method,
            call.url,
            params=call.params,
            headers={**self.config.headers, **call.headers},
            content=call.content,
            timeout=httpx.Timeout(call.timeout, connect=min(10.0, call.timeout)),
        )
        try:
            # A redirect could send the key to another server.
            response = await self.http.send(request, stream=True, follow_redirects=False)
            if is_stream and response.is_success:
                return response
            try:
                await response.aread()
            finally:
                await response.aclose()
        except httpx.RequestError as error:
            raise from_transport(error, self.config) from error
        if response.is_success or response.status_code == 304:
            return response
        raise from_response(response)

    async def call(
        self,
        operation: Operation,
        *path: str,
        query: Mapping[str, QueryValue] | None = None,
        body: Model | None = None,
        if_match: str | Model | None = None,
        idempotency_key: str | None = None,
        accept: str = "application/json",
        extra_time: float = 0,
        wait: Wait | None = None,
    ) -> httpx.Response:
        """Carries out an operation."""
        call = build_call(
            self.config,
            operation,
            *path,
            query=query,
            body=body,
            if_match=if_match,
            idempotency_key=idempotency_key,
            accept=accept,
            extra_time=extra_time,
        )
        return await self.send(call, wait)

    async def get(self, model: type[M], operation: Operation, *path: str, **options: Any) -> M:
        """Carries out an operation, and returns the object in the response."""
        return parse(model, await self.call(operation, *path, **options))

    async def page(
        self,
        read: PageReader[T],
        operation: Operation,
        *path: str,
        query: Mapping[str, QueryValue],
    ) -> Page[T]:
        """Returns a page of a list."""
        return read(await self.call(operation, *path, query=query))
