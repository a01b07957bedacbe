"""Parts that need no server."""

from __future__ import annotations

import inspect
import math
from typing import Any

import httpx
import pytest

from journeyman_client import (
    AsyncJourneyman,
    InvalidResponseError,
    Job,
    Journeyman,
    UnknownEvent,
    _core,
    models,
)
from journeyman_client._events import parse_event, parse_feed_event
from journeyman_client._operations import Operation
from journeyman_client._sse import EventParser, ServerSentEvent
from journeyman_client.errors import ConnectionFailedError, from_response

from .conftest import Clock


def parse(text: bytes, size: int) -> list[ServerSentEvent]:
    parser = EventParser()
    chunks = [text[start : start + size] for start in range(0, len(text), size)]
    return [event for chunk in chunks for event in parser.feed(chunk)]


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_server_sent_events(size: int, end: str) -> None:
    lines = [
        ": hello",
        "",
        "id: 3",
        "event: x",
        "data: {é",
        "data:}",
        "",
        "data",
        "",
        "id:4",
        "",
        "",
    ]
    lines += ["data: not complete", "id: 5"]
    # The parser waits for a possible LF after the last CR.
    text = (end.join(lines) + end).encode()
    assert parse(text, size) == [
        ServerSentEvent("3", "{é\n}"),
        ServerSentEvent(None, ""),
        ServerSentEvent("4", None),
    ]


def test_new_types_of_events_and_new_values() -> None:
    entry = {"seq": 7, "type": "job.paused", "at": "2026-11-22T09:00:00Z", "runId": None}
    event = parse_event({**entry, "data": {"by": "ada"}})
    assert isinstance(event, UnknownEvent)
    assert (event.type, event.data) == ("job.paused", {"by": "ada"})
    data: dict[str, Any] = {
        "messageId": "m",
        "status": "paused",
        "commits": [],
        "prLink": None,
        "reason": None,
    }
    finished = parse_event({**entry, "type": "message.finished", "data": data})
    assert isinstance(finished, models.EventMessageFinished)
    assert str(finished.data.status) == "paused"
    incomplete = {**entry, "type": "message.finished"}
    invalid: Any
    for invalid in ({"seq": 1}, incomplete, [], None, {"type": []}):
        with pytest.raises(InvalidResponseError):
            parse_event(invalid)
    key = models.Agent.model_validate(
        {"id": "a", "name": "A", "dialects": [], "asks": [], "resumes": True, "newField": [1]}
    )
    assert key.model_extra == {"newField": [1]}


def test_new_types_of_feed_events() -> None:
    job = {
        "id": "job_1",
        "status": "paused",
        "source": {"repository": "local:shop", "ref": "main"},
        "model": "test/scripted",
        "prLink": None,
        "createdAt": "2026-11-22T09:00:00.000Z",
        "archivedAt": None,
    }
    none = dict.fromkeys(("messageId", "runId", "pullRequest", "reason"))
    data = {"job": job, "projectId": "shop", "title": "x", **none}
    event = {"id": "7", "type": "job.paused", "timestamp": "2026-11-22T09:00:00Z", "data": data}
    found = parse_feed_event(event)
    assert (str(found.type), str(found.data.job.status)) == ("job.paused", "paused")
    changes: Any = {"events": ["job.paused", "job.created"]}
    sent = models.ChangeWebhook.model_validate(changes)
    assert sent.model_dump(exclude_unset=True) == changes


def test_waits(clock: Clock) -> None:
    begin = clock.now
    unlimited = _core.Wait(None)
    assert (unlimited.hold(30), unlimited.is_over) == (30, False)
    assert unlimited.pause(begin) == 0.5
    assert unlimited.pause(begin - 1) == unlimited.pause(-math.inf) == 0
    short = _core.Wait(0.25)
    assert (short.hold(30), short.is_over) == (1, False)
    assert short.pause(begin) == 0.25
    clock.sleep(0.125)
    assert (unlimited.pause(begin), short.pause(begin), short.is_over) == (0.375, 0.125, False)
    clock.sleep(0.125)
    for over in (short, _core.Wait(0)):
        assert (over.hold(30), over.pause(begin), over.is_over) == (0, 0, True)


def test_delays() -> None:
    config = _core.Config("http://x", "k", 1, 4)
    call = _core.build_call(config, Operation("GET", "/x"))
    for attempt, longest in ((1, 0.5), (2, 1), (3, 2), (4, 4), (5, 8), (50, 8)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_core, "_FIRST_DELAY", 0.5)
            delay = _core.retry_delay(call, attempt, ConnectionFailedError("lost"))
        assert delay is not None
        assert longest / 2 <= delay <= longest


def test_retry_after_as_a_date_is_ignored() -> None:
    response = httpx.Response(503, headers={"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"})
    assert from_response(response).retry_after is None


def public(kind: type) -> dict[str, Any]:
    return {name: value for name, value in vars(kind).items() if not name.startswith("_")}


def test_public_items_are_documented() -> None:
    with Journeyman("http://x", "k") as client:
        resources = [type(value) for name, value in vars(client).items() if name[0] != "_"]
    for kind in [Journeyman, AsyncJourneyman, Job, *resources]:
        for name, value in public(kind).items():
            assert inspect.getdoc(value), f"{kind.__name__}.{name}"
