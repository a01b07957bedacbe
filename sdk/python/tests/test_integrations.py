"""Trusts, the exchange of tokens, and Slack workspaces."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from journeyman_client import (
    APIError,
    AsyncJourneyman,
    AuthenticationError,
    ConflictError,
    Journeyman,
    NotFoundError,
    PermissionDeniedError,
    PreconditionFailedError,
    models,
)

from .conftest import Server
from .stand_ins import AUDIENCE, BOT_TOKEN


def test_trusts(client: Journeyman) -> None:
    fields = {"issuer": "https://ci.example.com", "claims": {"repository": "acme/shop"}}
    made = client.trusts.create(
        name="ci",
        issuer="https://ci.example.com",
        claims={"repository": "acme/shop"},
        projects=["shop"],
        audience=AUDIENCE,
    )
    assert {"issuer": made.issuer, "claims": made.claims} == fields
    assert (made.scope, made.last_used_at) == ("jobs", None)
    with pytest.raises(ConflictError):
        client.trusts.create(
            name="ci", issuer=made.issuer, claims={"repository": "acme/x"}, projects=["shop"]
        )
    assert client.trusts.get(made.id).model_dump() == made.model_dump()
    assert [trust.id for trust in client.trusts.list(page_size=1)] == [made.id]
    changed = client.trusts.update(made.id, if_match=made, scope="read", claims={"ref": "main"})
    assert (changed.scope, changed.claims) == ("read", {"ref": "main"})
    with pytest.raises(PreconditionFailedError):
        client.trusts.delete(made.id, if_match=made)
    client.trusts.delete(made.id, if_match=changed)
    client.trusts.delete(made.id)
    with pytest.raises(NotFoundError):
        client.trusts.get(made.id)


def test_exchange_of_a_token(server: Server, client: Journeyman) -> None:
    trust = client.trusts.create(
        name="exchanged",
        issuer=server.stand_ins.issuer,
        audience=AUDIENCE,
        claims={"repository": "acme/shop"},
        projects=["shop"],
    )
    token = server.stand_ins.token(repository="acme/shop")
    exchanged = Journeyman.exchange_token(token, url=server.url, trust="exchanged")
    assert exchanged.secret not in repr(exchanged)
    assert token not in repr(models.ExchangeToken(token=token))
    with Journeyman(server.url, exchanged.secret) as short:
        key = short.me().key
    assert (key.id, key.projects, key.scopes) == (exchanged.key.id, ["shop"], ["jobs"])
    assert key.expires_at == exchanged.expires_at
    again = asyncio.run(AsyncJourneyman.exchange_token(token, url=server.url))
    assert again.key.id == exchanged.key.id
    assert again.secret != exchanged.secret
    client.trusts.delete(trust.id)
    with Journeyman(server.url, again.secret) as ended, pytest.raises(AuthenticationError):
        ended.me()


def test_refused_tokens(server: Server, client: Journeyman) -> None:
    with pytest.raises(PermissionDeniedError) as untrusted:
        Journeyman.exchange_token(server.stand_ins.token(), url=server.url)
    assert untrusted.value.code == "token_not_trusted"
    trust = client.trusts.create(
        name="refused",
        issuer=server.stand_ins.issuer,
        audience=AUDIENCE,
        claims={"sub": "ci"},
        projects=["shop"],
    )
    forged = server.stand_ins.token().rpartition(".")[0] + ".AAAA"
    with pytest.raises(AuthenticationError) as refused:
        Journeyman.exchange_token(forged, url=server.url)
    assert refused.value.code == "token_refused"
    assert forged not in str(refused.value)
    client.trusts.delete(trust.id)


def test_an_exchange_sends_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOURNEYMAN_URL", "http://journeyman.example.com/")
    monkeypatch.setenv("JOURNEYMAN_KEY", "jmn_of_the_environment")
    requests = []

    def refuse(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(503, text="a proxy") if len(requests) == 1 else httpx.Response(403)

    http = httpx.Client(transport=httpx.MockTransport(refuse))
    with pytest.raises(PermissionDeniedError):
        Journeyman.exchange_token("a.b.c", http_client=http)
    assert not http.is_closed
    http.close()
    assert [str(request.url) for request in requests] == [
        "http://journeyman.example.com/v2/oidc/exchange"
    ] * 2
    assert all("authorization" not in request.headers for request in requests)
    with pytest.raises(ValueError, match="http://"):
        Journeyman.exchange_token("a.b.c", url="journeyman")


def test_slack_workspaces(client: Journeyman) -> None:
    with pytest.raises(APIError) as refused:
        client.slack.create(bot_token="xoxb-wrong", signing_secret="hunter2hunter2")
    assert (refused.value.status, refused.value.code) == (422, "slack_failed")
    request = models.ChangeSlackWorkspace(bot_token="hunter2", app_token="hunter2")
    assert "hunter2" not in repr(request)
    code = models.SlackCode.model_validate(
        {"code": "hunter2", "expiresAt": "2026-11-22T09:00:00.000Z"}
    )
    assert "hunter2" not in repr(code)

    made = client.slack.create(
        bot_token=BOT_TOKEN, signing_secret="hunter2hunter2", channels={"C1": "shop"}
    )
    assert (made.name, made.mode, made.channels) == ("Acme", "events", {"C1": "shop"})
    assert (made.has_bot_token, made.has_signing_secret, made.has_app_token) == (True, True, False)
    with pytest.raises(ConflictError) as taken:
        client.slack.create(bot_token=BOT_TOKEN, signing_secret="hunter2hunter2")
    assert taken.value.code == "slack_workspace_exists"
    assert client.slack.get(made.id) == made
    assert [workspace.id for workspace in client.slack.list()] == [made.id]
    changed = client.slack.update(made.id, if_match=made, channels={"C1": None, "C2": "shop"})
    assert changed.channels == {"C2": "shop"}
    with pytest.raises(PreconditionFailedError):
        client.slack.update(made.id, if_match=made, name="Other")
    assert any(finding.health == "ok" for finding in client.slack.check(made.id))
    assert list(client.slack.events(made.id, page_size=2)) == []
    assert list(client.slack.posts(made.id, page_size=2)) == []
    with pytest.raises(PermissionDeniedError):
        client.slack.create_code()  # the key belongs to no user
    client.slack.delete(made.id, if_match=changed)
    client.slack.delete(made.id)
    with pytest.raises(NotFoundError):
        client.slack.get(made.id)
