"""The events of a job and of the feed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast, get_args

from pydantic import AwareDatetime, ValidationError

from . import models
from ._core import Page, parse_json
from ._model import Model
from .errors import InvalidResponseError

if TYPE_CHECKING:
    import httpx


class UnknownEvent(Model):
    """An event of a type that was added after this version of the package. Ignore it."""

    seq: int
    type: str
    at: AwareDatetime
    run_id: str | None
    data: Any


#: An event of a job. To distinguish the types, use ``isinstance`` or ``match``.
Event: TypeAlias = models.Event | UnknownEvent

#: The events after which a job is not active until the next message.
ENDS = frozenset({"job.completed", "job.failed", "job.archived"})

_TYPES: dict[str, type[Model]] = {
    get_args(event.model_fields["type"].annotation)[0]: event
    for event in get_args(models.Event.__value__)
}


def parse_event(document: Any) -> Event:
    """Returns an event of a job."""
    kind = document.get("type") if isinstance(document, dict) else None
    try:
        event: Any = _TYPES.get(str(kind), UnknownEvent).model_validate(document)
    except ValidationError as error:
        raise InvalidResponseError("the server sent an invalid event") from error
    return cast("Event", event)


def parse_feed_event(document: Any) -> models.ProjectEvent:
    """Returns an event of the feed."""
    try:
        return models.ProjectEvent.model_validate(document)
    except ValidationError as error:
        raise InvalidResponseError("the server sent an invalid event") from error


def read_event_page(response: httpx.Response) -> Page[Event]:
    """Reads a page of a job's events."""
    document = parse_json(response)
    try:
        events = [parse_event(event) for event in document["events"]]
        return Page(events, str(document["nextAfter"]), bool(document["hasMore"]))
    except (KeyError, TypeError) as error:
        raise InvalidResponseError("the server sent an invalid page of events") from error
