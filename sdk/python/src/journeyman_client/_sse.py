"""Parsing of server-sent events (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import re
from typing import NamedTuple

_LINE_END = re.compile(rb"\r\n|\n|\r")


class ServerSentEvent(NamedTuple):
    """An event of a stream. Without data, it only sets the ID from which the stream resumes."""

    id: str | None
    data: str | None


class EventParser:
    """Splits the bytes of a stream into events. An incomplete event at the end is dropped."""

    def __init__(self) -> None:
        self._buffer = b""
        self._id: str | None = None
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Returns the events that this chunk completes."""
        self._buffer += chunk
        # A CR at the end may be the first half of a CRLF.
        end = len(self._buffer) - self._buffer.endswith(b"\r")
        events: list[ServerSentEvent] = []
        start = 0
        for found in _LINE_END.finditer(self._buffer, 0, end):
            line = self._buffer[start : found.start()].decode("utf-8", "replace")
            start = found.end()
            if line:
                self._field(line)
            elif self._data or self._id is not None:
                data = "\n".join(self._data) if self._data else None
                events.append(ServerSentEvent(self._id, data))
                self._id, self._data = None, []
        self._buffer = self._buffer[start:]
        return events

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._id = value
