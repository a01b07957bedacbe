"""The client."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import httpx
from typing_extensions import Self

from .. import _operations as op
from .._core import build_call, configure, configure_without_key
from .._operations import Operation
from ..models import Agent, AgentList, ExchangedKey, ExchangeToken, Me, ModelList, Provider, System
from ._integrations import AsyncSlack, AsyncTrusts
from ._jobs import AsyncEvents, AsyncJobs, AsyncMessages, AsyncRuns
from ._resources import (
    AsyncAudit,
    AsyncCodeHosts,
    AsyncInbox,
    AsyncKeys,
    AsyncProjects,
    AsyncPulls,
    AsyncUsage,
    AsyncWebhooks,
)
from ._templates import AsyncTemplates
from ._transport import AsyncTransport
from ._users import AsyncUsers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from .._core import Config, QueryValue


class AsyncJourneyman:
    """A client of a Journeyman server.

    It holds connections: close it, or use it as a context manager.

    Args:
        url: The URL of the server; by default, ``JOURNEYMAN_URL``, or ``http://127.0.0.1:8080``.
        key: The API key; by default, ``JOURNEYMAN_KEY``.
        timeout: The time in seconds for which the server may send nothing during a request.
        max_retries: The number of times that a request is repeated after a lost connection, or
            after an answer with the status 429, 502, 503 or 504. The delays are random, and grow
            to 8 seconds. A request that could take effect twice is not repeated. The requests of a
            wait are repeated at least 10 times, which bridges a restart of the server.
        http_client: A client of httpx to use, for example with other proxies or certificates. It
            is not closed with this client.

    Raises:
        ValueError: The key is missing, or an argument is not valid.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = 30.0,
        max_retries: int = 4,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        config = configure(url, key, timeout, max_retries)
        self._owns_http = http_client is None
        self._use(config, http_client or httpx.AsyncClient())

    def _use(self, config: Config, http: httpx.AsyncClient) -> None:
        self._transport = AsyncTransport(config, http)
        self.jobs = AsyncJobs(self)
        self.messages = AsyncMessages(self)
        self.runs = AsyncRuns(self)
        self.events = AsyncEvents(self)
        self.projects = AsyncProjects(self)
        self.pulls = AsyncPulls(self)
        self.code_hosts = AsyncCodeHosts(self)
        self.inbox = AsyncInbox(self)
        self.keys = AsyncKeys(self)
        self.webhooks = AsyncWebhooks(self)
        self.users = AsyncUsers(self)
        self.templates = AsyncTemplates(self)
        self.trusts = AsyncTrusts(self)
        self.slack = AsyncSlack(self)
        self.usage = AsyncUsage(self)
        self.audit = AsyncAudit(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @property
    def url(self) -> str:
        """The URL of the server."""
        return self._transport.config.url

    def with_options(self, *, timeout: float | None = None, max_retries: int | None = None) -> Self:
        """Returns a client with other options that shares the connections of this one."""
        config = self._transport.config
        if timeout is not None:
            config = replace(config, timeout=timeout)
        if max_retries is not None:
            config = replace(config, max_retries=max_retries)
        client = type(self).__new__(type(self))
        client._owns_http = False
        client._use(config, self._transport.http)
        return client

    @staticmethod
    async def exchange_token(
        token: str,
        *,
        url: str | None = None,
        trust: str | None = None,
        timeout: float = 30.0,
        max_retries: int = 4,
        http_client: httpx.AsyncClient | None = None,
    ) -> ExchangedKey:
        """Exchanges a token of a CI service for a key that works for 15 minutes. Needs no key.

        Args:
            token: The OpenID token, for the URL of the server as its audience.
            url: The URL of the server; by default, ``JOURNEYMAN_URL``, or
                ``http://127.0.0.1:8080``.
            trust: The ID or the name of the trust that must accept the token; by default, any may.
            timeout: The time in seconds for which the server may send nothing.
            max_retries: The number of times that the request is repeated.
            http_client: A client of httpx to use. It is not closed.

        Returns:
            The key, and its ``secret``, to pass as ``key`` to a client.

        Raises:
            AuthenticationError: The token is not valid (``token_refused``).
            PermissionDeniedError: No trust accepts the token (``token_not_trusted``).
        """
        config = configure_without_key(url, timeout, max_retries)
        body = (
            ExchangeToken(token=token) if trust is None else ExchangeToken(token=token, trust=trust)
        )
        http = http_client or httpx.AsyncClient()
        try:
            transport = AsyncTransport(config, http)
            return await transport.get(ExchangedKey, op.EXCHANGE_TOKEN, body=body)
        finally:
            if http_client is None:
                await http.aclose()

    async def me(self) -> Me:
        """Returns the API key of this client, and what it may do."""
        return await self._transport.get(Me, op.GET_ME)

    async def agents(self) -> list[Agent]:
        """Returns the agents that a project or a job can name, by ID."""
        return (await self._transport.get(AgentList, op.LIST_AGENTS)).agents

    async def models(self) -> list[Provider]:
        """Returns the providers of models with their prices."""
        return (await self._transport.get(ModelList, op.LIST_MODELS)).providers

    async def system(self) -> System:
        """Returns the version of the service, and the sandbox of the machine that answers."""
        return await self._transport.get(System, op.GET_SYSTEM)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, QueryValue] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> httpx.Response:
        """Sends any request with the key, for operations and headers without a method.

        Only ``GET`` requests, and those with an ``Idempotency-Key``, are repeated if their answer
        is lost. With ``If-None-Match``, the response may have the status 304.

        Args:
            method: The method, such as ``GET``.
            path: The path of the URL, which begins with a slash and ends before the query.
            query: The query parameters.
            headers: More headers.
            content: The body, by default of the type JSON.

        Raises:
            JourneymanError: The server refused the request, or could not be reached.
            ValueError: The path does not begin with a slash.
        """
        if not path.startswith("/"):
            # The path must not change the host to which the key is sent.
            raise ValueError("the path must begin with a slash")
        call = build_call(self._transport.config, Operation(method.upper(), path), query=query)
        given = httpx.Headers(headers)
        is_repeatable = call.method in {"GET", "HEAD"} or "idempotency-key" in given
        if content is not None:
            given.setdefault("Content-Type", "application/json")
        merged = {**httpx.Headers(call.headers), **given}
        call = replace(call, headers=merged, content=content, is_repeatable=is_repeatable)
        return await self._transport.send(call)

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
        """Closes the connections."""
        if self._owns_http:
            await self._transport.http.aclose()
