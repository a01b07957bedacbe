from __future__ import annotations

import base64
import json
import queue
import threading
import time
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import standardwebhooks
import svix

from journeyman_client import ConflictError, Journeyman, WebhookVerificationError, models, webhooks

from .conftest import WAIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Delivery = tuple[dict[str, str], bytes]


class Receiver:
    """An endpoint that accepts all requests."""

    def __init__(self) -> None:
        received: queue.Queue[Delivery] = queue.Queue()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                received.put((dict(self.headers), body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.received = received
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def next(self) -> Delivery:
        return self.received.get(timeout=WAIT)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


def test_deliveries(client: Journeyman, receiver: Receiver, quiet_project: str) -> None:
    project = quiet_project
    start = datetime.now(timezone.utc)
    types: list[models.ProjectEventType] = ["job.created", "message.finished"]
    hook = client.webhooks.create(project, url=receiver.url, events=types, description="tests")
    assert hook.secret not in repr(hook)
    job = client.jobs.create(project, prompt="[[say hi]]")
    deliveries = [receiver.next(), receiver.next()]
    for headers, body in deliveries:
        standardwebhooks.Webhook(hook.secret).verify(body, headers)
        svix.Webhook(hook.secret).verify(body, headers)
    events = [webhooks.verify(body, headers, hook.secret) for headers, body in deliveries]
    assert [event.type for event in events] == types
    assert [event.data.job.id for event in events] == [job.id, job.id]
    assert events[1].data.message_id is not None
    assert events[0].id.startswith("evt_")
    assert events[0].timestamp >= start.replace(microsecond=0)

    rotated = client.webhooks.rotate(project, hook.id, keep_old_seconds=60)
    assert rotated.etag == client.webhooks.get(project, hook.id).etag
    tested = client.webhooks.test(project, hook.id)
    assert (tested.status, tested.error) == (204, None)
    headers, body = receiver.next()
    for secret in (hook.secret, rotated.secret):
        assert webhooks.verify(body, headers, secret).id
        assert standardwebhooks.Webhook(secret).verify(body, headers)
    assert webhooks.verify(body, headers, ["whsec_AAAA", rotated.secret])

    wait_until_delivered(client, project, hook.id)
    listed = list(client.webhooks.deliveries(project, hook.id, state="delivered", page_size=1))
    assert [delivery.type for delivery in listed] == types[::-1]
    client.webhooks.redeliver(project, hook.id, listed[0].id)
    headers, body = receiver.next()
    assert webhooks.verify(body, headers, rotated.secret).id == events[1].id
    wait_until_delivered(client, project, hook.id)
    assert client.webhooks.replay(project, hook.id, since=start) == 2
    again = [receiver.next()[0]["webhook-id"] for _ in range(2)]
    assert again == [event.id for event in events]

    read = client.webhooks.get(project, hook.id)
    changed = client.webhooks.update(project, hook.id, if_match=read, enabled=False)
    assert (changed.enabled, changed.disabled_reason) == (False, "on_request")
    assert changed.etag == client.webhooks.get(project, hook.id).etag
    with pytest.raises(ConflictError) as refusal:
        client.webhooks.redeliver(project, hook.id, listed[0].id)
    assert refusal.value.code == "webhook_disabled"
    with pytest.raises(ConflictError) as refusal:
        client.webhooks.replay(project, hook.id, since=start)
    assert refusal.value.code == "webhook_disabled"
    assert hook.id in [one.id for one in client.webhooks.list(project, page_size=1)]
    client.webhooks.delete(project, hook.id, if_match=changed)


def wait_until_delivered(client: Journeyman, project: str, hook: str) -> None:
    """Waits until the server has recorded the answers."""
    end = time.monotonic() + WAIT
    while client.webhooks.deliveries(project, hook, state="pending").first() is not None:
        assert time.monotonic() < end
        time.sleep(0.05)


SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
RECORD = {
    "id": "job_1",
    "status": "completed",
    "source": {"repository": "local:shop", "ref": "main"},
    "model": "test/scripted",
    "prLink": None,
    "createdAt": "2026-11-22T09:00:00.000Z",
    "archivedAt": None,
}
BODY = json.dumps(
    {
        "type": "job.completed",
        "timestamp": "2026-11-22T09:04:10.512Z",
        "data": {
            "job": RECORD,
            "projectId": "shop",
            "title": "é",
            "messageId": None,
            "runId": None,
            "pullRequest": None,
            "reason": None,
        },
    }
)


def signed(body: str = BODY, *, age: int = 0, secret: str = SECRET) -> dict[str, str]:
    now = datetime.fromtimestamp(int(time.time()) - age, timezone.utc)
    return {
        "Webhook-Id": "evt_1",
        "Webhook-Timestamp": str(int(now.timestamp())),
        "Webhook-Signature": standardwebhooks.Webhook(secret).sign("evt_1", now, body),
    }


@pytest.fixture
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stops the clock of the verification, so that no request gets too old in a slow test."""
    now = int(time.time())
    for module in ("journeyman_client.webhooks", __name__):
        monkeypatch.setattr(f"{module}.time", SimpleNamespace(time=lambda: now))


@pytest.mark.usefixtures("stopped_clock")
def test_verification() -> None:
    headers = signed()
    for body in (BODY, BODY.encode()):
        event = webhooks.verify(body, headers, SECRET)
        assert (event.id, event.type, event.data.title) == ("evt_1", "job.completed", "é")
    other = f"v1a,xyz v1,??? v1,{base64.b64encode(b'x').decode()} "
    headers["Webhook-Signature"] = other + headers["Webhook-Signature"]
    assert webhooks.verify(BODY, headers, SECRET)
    assert webhooks.verify(BODY, signed(age=300), SECRET)
    assert webhooks.verify(BODY, signed(age=3000), SECRET, tolerance=4000)


@pytest.mark.parametrize(
    ("headers", "body", "message"),
    [
        (lambda: signed(age=301), BODY, "too old"),
        (lambda: signed(age=-301), BODY, "too old"),
        (signed, BODY + " ", "does not match"),
        (lambda: signed(secret="whsec_AAAA"), BODY, "does not match"),
        (lambda: {**signed(), "Webhook-Signature": ""}, BODY, "does not match"),
        (lambda: {**signed(), "Webhook-Signature": "v1,é"}, BODY, "does not match"),
        (lambda: {**signed(), "Webhook-Timestamp": "x"}, BODY, "not a number"),
        (lambda: {**signed(), "Webhook-Timestamp": "9" * 5000}, BODY, "not a number"),
        (lambda: {"Webhook-Id": "evt_1"}, BODY, "webhook-timestamp"),
        (lambda: signed("[]"), "[]", "not an event"),
        (lambda: signed("{}"), "{}", "not an event"),
        (lambda: signed("x"), "x", "not an event"),
    ],
)
@pytest.mark.usefixtures("stopped_clock")
def test_refusals(headers: Callable[[], dict[str, str]], body: str, message: str) -> None:
    with pytest.raises(WebhookVerificationError, match=message):
        webhooks.verify(body, headers(), SECRET)


@pytest.mark.usefixtures("stopped_clock")
def test_invalid_secrets() -> None:
    for secret in ("whsec_?", "jmn_secret", "whsec_"):
        with pytest.raises(ValueError, match="whsec_") as error:
            webhooks.verify(BODY, signed(), secret)
        assert "?" not in str(error.value)
    with pytest.raises(WebhookVerificationError):
        webhooks.verify(BODY, signed(), [])
