"""Lists in pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from .._core import Page, PageReader, QueryValue
    from .._operations import Operation
    from ._transport import AsyncTransport

T = TypeVar("T")


class AsyncPager(Generic[T]):
    """A list of the server. Iterating over it requests one page after the other.

    Nothing is requested before the iteration, and each iteration begins again.
    """

    def __init__(
        self,
        transport: AsyncTransport,
        read: PageReader[T],
        operation: Operation,
        *path: str,
        query: Mapping[str, QueryValue],
        cursor_name: str = "cursor",
    ) -> None:
        self._transport = transport
        self._read = read
        self._operation = operation
        self._path = path
        self._query = dict(query)
        self._cursor_name = cursor_name

    async def __aiter__(self) -> AsyncIterator[T]:
        async for page in self.pages():
            for item in page.items:
                yield item

    async def pages(self) -> AsyncIterator[Page[T]]:
        """Iterates over the pages, for programs that store the cursor."""
        query = self._query
        while True:
            page = await self._transport.page(self._read, self._operation, *self._path, query=query)
            yield page
            if not page.has_more:
                return
            query = {**query, self._cursor_name: page.next_cursor}

    async def first(self) -> T | None:
        """Returns the first entry; ``None`` if the list is empty."""
        query = {**self._query, "limit": 1}
        page = await self._transport.page(self._read, self._operation, *self._path, query=query)
        return page.items[0] if page.items else None
