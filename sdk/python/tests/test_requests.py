"""Retries, idempotency keys, and errors."""

from __future__ import annotations

import pickle
from datetime import datetime, timezone

import pytest

from journeyman_client import (
    APIError,
    AuthenticationError,
    BadRequestError,
    ConflictError,
    ConnectionFailedError,
    IdempotencyKeyReusedError,
    InvalidResponseError,
    JobNotFoundError,
    Journeyman,
    NotFoundError,
    PermissionDeniedError,
    PreconditionFailedError,
    RateLimitedError,
    RequestTimeoutError,
    ServerError,
)

from .conftest import LONG, WAIT, Clock, Server
from .proxy import Proxy


def test_a_lost_answer_creates_no_second_job(
    client: Journeyman, unreliable: Journeyman, proxy: Proxy
) -> None:
    proxy.drops = 2
    job = unreliable.jobs.create("shop", prompt="[[say hi]]", labels=["lost"])
    assert proxy.drops == 0
    assert [one.id for one in client.jobs.list(label="lost")] == [job.id]
    job.wait(timeout=WAIT)
    proxy.drops = 1
    job.send("[[say again]]")
    assert proxy.drops == 0
    assert len(list(job.messages())) == 2
    job.wait(timeout=WAIT)


def test_a_lost_answer_without_a_key_is_an_error(
    client: Journeyman, unreliable: Journeyman, proxy: Proxy
) -> None:
    hook = client.webhooks.create("shop", url="http://127.0.0.1:9/")
    proxy.drops = 1
    # A repetition would deliver the events twice.
    with pytest.raises(ConnectionFailedError):
        unreliable.webhooks.replay("shop", hook.id, since=datetime.now(timezone.utc))
    project = client.projects.get("shop")
    proxy.drops = 1
    with pytest.raises(ConnectionFailedError):
        unreliable.projects.update("shop", if_match=project, setup="true")
    assert client.projects.get("shop").setup == "true"
    proxy.drops = 1
    assert unreliable.projects.update("shop", setup=None).setup is None
    assert proxy.drops == 0
    client.webhooks.delete("shop", hook.id)


def test_a_lost_answer_to_a_rotation(
    client: Journeyman, unreliable: Journeyman, proxy: Proxy
) -> None:
    hook = client.webhooks.create("shop", url="http://127.0.0.1:9/")
    key = client.keys.create(name="rotated")
    for _ in range(2):
        read, read_key = client.webhooks.get("shop", hook.id), client.keys.get(key.id)
        proxy.drops = 1
        rotated = unreliable.webhooks.rotate(
            "shop", hook.id, if_match=read, idempotency_key=f"r{read.etag}"
        )
        same = client.webhooks.rotate(
            "shop", hook.id, if_match=read, idempotency_key=f"r{read.etag}"
        )
        assert rotated.secret == same.secret
        assert client.webhooks.get("shop", hook.id).etag != read.etag
        proxy.drops = 1
        assert unreliable.keys.rotate(key.id, if_match=read_key).secret != key.secret
        assert proxy.drops == 0
    client.webhooks.delete("shop", hook.id)
    client.keys.revoke(key.id)


def test_deletions_are_repeated(client: Journeyman, unreliable: Journeyman, proxy: Proxy) -> None:
    client.projects.create(id="gone", repository="local:gone")
    hook = client.webhooks.create("shop", url="http://127.0.0.1:9/")
    key = client.keys.create(name="gone")
    job = client.jobs.create("shop", prompt="[[say hi]]").wait(timeout=WAIT)
    old, old_hook, old_key = (
        client.projects.get("gone"),
        client.webhooks.get("shop", hook.id),
        client.keys.get(key.id),
    )
    proxy.drops = 1
    unreliable.projects.delete("gone", if_match=old)
    proxy.drops += 1
    unreliable.webhooks.delete("shop", hook.id, if_match=old_hook)
    proxy.drops += 1
    unreliable.keys.revoke(key.id, if_match=old_key)
    proxy.drops += 1
    unreliable.jobs.delete("shop", job.id, if_match=job.refresh().record)
    client.code_hosts.create(id="gone", kind="gitea", url="http://127.0.0.1:91")
    proxy.drops += 1
    unreliable.code_hosts.delete("gone")
    assert proxy.drops == 0


def test_idempotency_keys(client: Journeyman) -> None:
    made = [
        client.jobs.create("shop", prompt="[[say hi]]", idempotency_key="create-once")
        for _ in range(2)
    ]
    assert made[0].id == made[1].id
    with pytest.raises(IdempotencyKeyReusedError) as refusal:
        client.jobs.create("shop", prompt="[[say ho]]", idempotency_key="create-once")
    assert refusal.value.status == 422
    key = [client.keys.create(name="once", idempotency_key="key-once") for _ in range(2)]
    assert key[0].secret == key[1].secret
    client.keys.revoke(key[0].id)


@pytest.mark.parametrize("status", ["502 Bad Gateway", "503 Service Unavailable", "504 Timeout"])
def test_temporary_failures(unreliable: Journeyman, proxy: Proxy, status: str) -> None:
    proxy.answer(status, body="<html>a proxy</html>")
    proxy.answer(status)
    assert unreliable.jobs.create("shop", prompt="[[say hi]]").id
    assert not proxy.answers


def test_rate_limits(unreliable: Journeyman, proxy: Proxy) -> None:
    body = '{"error": "wait", "code": "rate_limited", "requestId": "req_1"}'
    proxy.answer("429 Too Many Requests", "Retry-After: 1", body=body)
    unreliable.me()
    assert not proxy.answers
    proxy.answer("429 Too Many Requests", "Retry-After: 3000", body=body)
    with pytest.raises(RateLimitedError) as refusal:
        unreliable.me()
    error = refusal.value
    assert (error.status, error.code, error.request_id) == (429, "rate_limited", "req_1")
    assert error.retry_after == 3000
    assert str(error) == "wait (429 rate_limited, request req_1)"


def test_retries_end(unreliable: Journeyman, proxy: Proxy) -> None:
    impatient = unreliable.with_options(max_retries=1)
    proxy.answer("503 Service Unavailable")
    proxy.answer("503 Service Unavailable")
    with pytest.raises(ServerError, match="503"):
        impatient.me()
    proxy.answer("500 Internal Server Error")
    with pytest.raises(ServerError):
        unreliable.me()
    assert not proxy.answers


def test_a_wait_bridges_a_restart(client: Journeyman, unreliable: Journeyman, proxy: Proxy) -> None:
    impatient = unreliable.with_options(max_retries=0)
    job = impatient.jobs.create("shop", prompt="[[say hi]]")
    for _ in range(5):
        proxy.answer("503 Service Unavailable")
    assert impatient.jobs.wait("shop", job.id, timeout=WAIT).status == "completed"
    sent = job.send("[[say hi]]")
    proxy.drops = 5
    assert sent.wait(timeout=WAIT).status == "finished"
    assert proxy.drops == 0
    client.jobs.wait("shop", job.id, timeout=WAIT)


def test_no_attempt_begins_after_the_end_of_a_wait(
    unreliable: Journeyman, proxy: Proxy, clock: Clock
) -> None:
    for _ in range(10):
        proxy.answer("503 Service Unavailable")
    begin = clock.now
    with pytest.raises(ServerError):
        unreliable.jobs.wait("shop", "job_x", timeout=0.5)
    # The delays double from at least 10 ms and at most 20 ms, so five or six attempts begin.
    assert len(proxy.answers) in {4, 5}
    assert clock.now - begin <= 0.5


def test_answers_of_another_service(unreliable: Journeyman, proxy: Proxy) -> None:
    proxy.answer("200 OK", body="<html>")
    with pytest.raises(InvalidResponseError):
        unreliable.me()
    proxy.answer("302 Found", "Location: http://127.0.0.1:9/")
    with pytest.raises(APIError, match="302"):
        unreliable.me()
    proxy.answer("418 Teapot", body='{"error": ["x"], "code": 3}')
    with pytest.raises(APIError, match="418"):
        unreliable.me()


def test_errors(client: Journeyman, server: Server) -> None:
    with pytest.raises(JobNotFoundError) as missing:
        client.jobs.get("shop", "job_x")
    assert isinstance(missing.value, NotFoundError)
    assert missing.value.code == "job_not_found"
    assert (missing.value.request_id or "").startswith("req_")
    assert str(missing.value.request_id) in str(missing.value)
    with pytest.raises(NotFoundError) as missing_project:
        client.jobs.create("none", prompt="x")
    assert missing_project.value.code == "project_not_found"
    with pytest.raises(ConflictError) as conflict:
        client.projects.create(id="shop", repository="local:shop")
    assert conflict.value.code == "project_exists"
    with pytest.raises(BadRequestError) as invalid:
        client.jobs.create("shop", prompt="")
    assert invalid.value.code == "invalid_prompt"
    with Journeyman(server.url, "jmn_x") as stranger, pytest.raises(AuthenticationError) as denied:
        stranger.me()
    assert denied.value.code == "malformed_key"
    reader = client.keys.create(name="reader", scopes=["read"], projects=["shop"])
    with Journeyman(server.url, reader.secret) as limited:
        assert not limited.me().manages_projects
        with pytest.raises(PermissionDeniedError) as forbidden:
            limited.jobs.create("shop", prompt="x")
        assert forbidden.value.code == "scope_missing"
    with pytest.raises(PreconditionFailedError) as changed:
        client.projects.update("shop", model="test/scripted", if_match='"v0"')
    assert changed.value.status == 412


def test_fields_are_checked(client: Journeyman) -> None:
    with pytest.raises(ValueError, match="promt"):
        client.jobs.create("shop", promt="x")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="create_per_our"):
        client.projects.update("shop", limits={"create_per_our": 3})  # type: ignore[arg-type]
    for project in ("", ".", ".."):
        with pytest.raises(ValueError, match="an ID"):
            client.projects.get(project)
    # A slash in an ID is part of the ID.
    with pytest.raises(NotFoundError):
        client.projects.get("../keys")


def test_timeouts(client: Journeyman) -> None:
    impatient = client.with_options(timeout=0.01, max_retries=0)
    job = client.jobs.create("shop", prompt=LONG)
    with pytest.raises(RequestTimeoutError):
        impatient.request("GET", f"/v2/agent/shop/job/{job.id}", query={"wait": 5})
    job.archive()


def test_any_request(client: Journeyman) -> None:
    found = client.request("get", "/v2/projects/shop")
    same = client.request(
        "GET", "/v2/projects/shop", headers={"If-None-Match": found.headers["etag"]}
    )
    assert (found.status_code, same.status_code) == (200, 304)
    made = client.request(
        "POST",
        "/v2/agent/shop/job",
        headers={"Idempotency-Key": "raw"},
        content=b'{"prompt": "[[say hi]]"}',
    )
    assert made.json()["status"] == "active"
    with pytest.raises(ValueError, match="slash"):
        client.request("GET", "@example.com/")


def test_configuration(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="JOURNEYMAN_KEY"):
        Journeyman(server.url)
    monkeypatch.setenv("JOURNEYMAN_URL", server.url + "/")
    monkeypatch.setenv("JOURNEYMAN_KEY", server.key)
    with Journeyman() as client:
        assert client.me().key.name == "tests"
        assert client.url == server.url
        for text in (repr(client), str(vars(client)), str(vars(client._transport))):
            assert server.key not in text
    for url in ("127.0.0.1:8080", "ftp://x", "http://a:b@x", "http://x?y=z", "http://"):
        with pytest.raises(ValueError, match="URL"):
            Journeyman(url)
    with pytest.raises(ValueError, match="invalid characters") as invalid:
        Journeyman(key="jmn_a\nb")
    assert "jmn_" not in str(invalid.value)


def test_secrets_are_not_printed(client: Journeyman) -> None:
    key = client.keys.create(name="hidden")
    assert key.secret.startswith("jmn_")
    for text in (repr(key), str(key)):
        assert key.secret not in text
        assert "secret='***'" in text
    rotated = client.keys.rotate(key.id, keep_old_seconds=60)
    assert rotated.secret != key.secret
    client.keys.revoke(key.id)
    with pytest.raises(ValueError, match="token") as invalid:
        client.projects.update("shop", code_host={"token": ["hunter2"]})  # type: ignore[arg-type]
    assert "hunter2" not in str(invalid.value)
    assert pickle.loads(pickle.dumps(key)) == key
