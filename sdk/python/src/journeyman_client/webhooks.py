"""Verification of the requests that webhooks send, as Standard Webhooks specifies.

::

    event = webhooks.verify(request.body, request.headers, "whsec_…")
    print(event.type, event.data.job.id)
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import TYPE_CHECKING

from pydantic import AwareDatetime

from . import models
from ._model import Model
from .errors import WebhookVerificationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["TOLERANCE", "WebhookEvent", "verify"]

#: The maximum difference in seconds between the time of a request and the clock of this machine.
TOLERANCE = 300.0

_PREFIX = "whsec_"


class WebhookEvent(Model):
    """An event that a webhook delivers."""

    id: str
    """The ID of the event. An event can come more than once, always with the same ID."""
    type: str
    """The type of the event. Ignore types that you do not know."""
    timestamp: AwareDatetime
    """The time of the event."""
    data: models.ProjectEventData
    """The job after the change, and what the event is about."""


def verify(
    body: bytes | str,
    headers: Mapping[str, str],
    secrets: str | Sequence[str],
    *,
    tolerance: float = TOLERANCE,
) -> WebhookEvent:
    """Verifies a request, and returns its event.

    Args:
        body: The body exactly as it was received.
        headers: The headers; upper and lower case do not matter.
        secrets: The secret of the webhook (``whsec_…``), or several, of which one must match.
        tolerance: The number of seconds that the request may be old.

    Raises:
        ValueError: A secret is not one of a webhook.
        WebhookVerificationError: The signature is missing or wrong, or the request is too old.
    """
    body = body.encode() if isinstance(body, str) else body
    keys = [_key(secret) for secret in ([secrets] if isinstance(secrets, str) else secrets)]
    found = {name.lower(): value for name, value in headers.items()}
    try:
        event_id = found["webhook-id"]
        timestamp = found["webhook-timestamp"]
        signatures = found["webhook-signature"]
    except KeyError as missing:
        raise WebhookVerificationError(f"the header {missing} is missing") from None
    _check_age(timestamp, tolerance)
    signed = f"{event_id}.{timestamp}.".encode() + body
    expected = [hmac.digest(key, signed, hashlib.sha256) for key in keys]
    if not any(
        hmac.compare_digest(signature, one)
        for signature in _signatures(signatures)
        for one in expected
    ):
        raise WebhookVerificationError("the signature does not match")
    try:
        return WebhookEvent.model_validate({**json.loads(body), "id": event_id})
    except (ValueError, TypeError) as error:
        raise WebhookVerificationError("the body is not an event") from error


def _key(secret: str) -> bytes:
    # The message must not contain the secret.
    key = _decode(secret.removeprefix(_PREFIX))
    if not key:
        raise ValueError("the secret of a webhook must be whsec_ and base64")
    return key


def _check_age(timestamp: str, tolerance: float) -> None:
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 20):
        raise WebhookVerificationError("the header webhook-timestamp is not a number")
    if abs(time.time() - int(timestamp)) > tolerance:
        raise WebhookVerificationError("the request is too old, or a clock is wrong")


def _signatures(header: str) -> list[bytes]:
    entries = [entry.partition(",") for entry in header.split()]
    return [_decode(signature) or b"" for version, _, signature in entries if version == "v1"]


def _decode(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None
