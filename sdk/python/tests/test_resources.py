"""Projects, templates, code hosts, keys, usage, the audit log, and the service."""

from __future__ import annotations

import csv
from datetime import datetime, timedelta, timezone

import pytest

from journeyman_client import ConflictError, Journeyman, NotFoundError, PreconditionFailedError

from .conftest import WAIT


def test_projects(client: Journeyman) -> None:
    made = client.projects.create(
        id="cafe",
        repository="local:cafe",
        environment={"snake_case": "kept", "camelCase": "kept"},
        limits={"budget": {"run_micros": 5_000_000}},
        secrets={"TOKEN": "hunter2"},
    )
    assert made.environment == {"snake_case": "kept", "camelCase": "kept"}
    assert made.limits.budget.run_micros == 5_000_000
    assert made.secrets == ["TOKEN"]
    assert made.etag is not None
    changed = client.projects.update(
        "cafe",
        if_match=made,
        environment={"camelCase": None},
        limits={"budget": {"run_micros": None}},
        pull_request={"labels": ["agent"], "draft": True},
    )
    assert changed.environment == {"snake_case": "kept"}
    assert changed.limits.budget.run_micros is None
    assert (changed.pull_request.labels, changed.pull_request.draft) == (["agent"], True)
    with pytest.raises(PreconditionFailedError):
        client.projects.update("cafe", if_match=made, model="test/other")
    with pytest.raises(PreconditionFailedError):
        client.projects.delete("cafe", if_match=made.etag)
    [listed] = [project for project in client.projects.list(page_size=1) if project.id == "cafe"]
    assert listed.model_dump() == client.projects.get("cafe").model_dump()
    with pytest.raises(ValueError, match="no version"):
        client.projects.delete("cafe", if_match=listed)
    assert all(finding.health for finding in client.projects.test("shop", setup="true"))
    assert client.projects.test_new(id="new", repository="local:shop")
    client.projects.delete("cafe", if_match=changed)
    client.projects.delete("cafe")


def test_templates(client: Journeyman) -> None:
    made = client.templates.create(
        "shop", name="Fix a bug", prompt="Fix this:\n", labels=["ui", "bug"], model="test/scripted"
    )
    assert (made.labels, made.agent, made.description) == (["bug", "ui"], None, "")
    with pytest.raises(ConflictError) as refusal:
        client.templates.create("shop", name="FIX A BUG", prompt="x")
    assert refusal.value.code == "template_exists"
    assert client.templates.get("shop", made.id).model_dump() == made.model_dump()
    assert made.id in [template.id for template in client.templates.list("shop", page_size=1)]
    changed = client.templates.update("shop", made.id, if_match=made, model=None, description="d")
    assert (changed.model, changed.description, changed.prompt) == (None, "d", made.prompt)
    with pytest.raises(PreconditionFailedError):
        client.templates.delete("shop", made.id, if_match=made)
    client.templates.delete("shop", made.id, if_match=changed)
    client.templates.delete("shop", made.id)
    with pytest.raises(NotFoundError):
        client.templates.get("shop", made.id)


def test_pulls(client: Journeyman) -> None:
    job = client.jobs.create("shop", prompt="Add a page [[write pulls.txt|Page]]")
    job.wait(timeout=WAIT)
    opened = next(pull for pull in client.pulls.list("shop") if pull.job == job.id)
    shown = client.pulls.get("shop", opened.number)
    assert shown.mergeable is True
    title, body = shown.title or "", shown.body or ""
    again = client.pulls.open("shop", head=shown.head, title=title, body=body)
    assert again.number == opened.number
    with pytest.raises(ConflictError) as conflict:
        client.pulls.open("shop", head=shown.head, title="Another")
    assert conflict.value.code == "pull_request_exists"
    merged = client.pulls.merge("shop", opened.number, method="rebase")
    assert (merged.state, merged.base) == ("merged", "main")
    assert client.pulls.merge("shop", opened.number).model_dump() == merged.model_dump()
    assert opened.number in [pull.number for pull in client.pulls.list("shop", state="merged")]
    with pytest.raises(NotFoundError) as refusal:
        client.pulls.get("shop", 4711)
    assert refusal.value.code == "pull_request_not_found"


def test_code_hosts(client: Journeyman) -> None:
    made = client.code_hosts.create(
        id="forge", kind="gitea", url="http://127.0.0.1:9", token="hunter2", trusted_bots=["7"]
    )
    assert made.has_token
    with pytest.raises(ConflictError):
        client.code_hosts.create(id="forge", kind="gitea", url="http://127.0.0.1:9")
    assert client.code_hosts.get("forge") == made
    assert [host.id for host in client.code_hosts.list()] == ["forge"]
    replaced = client.code_hosts.replace(
        "forge", if_match=made, kind="forgejo", url="http://127.0.0.1:9", token=None
    )
    assert (replaced.kind, replaced.has_token, replaced.trusted_bots) == ("forgejo", False, [])
    with pytest.raises(PreconditionFailedError):
        client.code_hosts.delete("forge", if_match=made)
    assert any(finding.health != "ok" for finding in client.code_hosts.check("forge"))
    client.code_hosts.delete("forge", if_match=replaced)
    assert [event for event in client.inbox.list() if event.host == "forge"] == []
    assert list(client.inbox.list("shop", state="failed", outcome="message", page_size=3)) == []


def test_keys(client: Journeyman) -> None:
    tomorrow = datetime.now(timezone.utc) + timedelta(days=1)
    made = client.keys.create(
        name="ci", scopes=["jobs"], allowed_ips=["127.0.0.0/8"], expires_at=tomorrow
    )
    forever = client.keys.create(name="forever", expires_at=None)
    assert forever.expires_at is None
    assert made.expires_at is not None
    assert abs(made.expires_at - tomorrow) < timedelta(seconds=1)
    read = client.keys.get(made.id)
    assert (read.name, read.scopes, read.revoked_at) == ("ci", ["jobs"], None)
    assert made.id in [key.id for key in client.keys.list(page_size=2)]
    client.keys.revoke(made.id, if_match=read)
    client.keys.revoke(forever.id)
    assert client.keys.get(made.id).revoked_at is not None


def test_users(client: Journeyman) -> None:
    made = client.users.create(name="Eve@example.com", role="viewer")
    assert (made.name, made.role, made.has_password) == ("eve@example.com", "viewer", False)
    assert "/setup?link=" in made.link.url
    assert made.link.url not in repr(made)
    with pytest.raises(ConflictError):
        client.users.create(name="eve@example.com")
    read = client.users.get(made.id)
    assert made.id in [user.id for user in client.users.list(page_size=1)]
    once = [client.users.create_link(made.id, idempotency_key="link-of-eve") for _ in range(2)]
    assert once[0].url == once[1].url != made.link.url
    changed = client.users.update(made.id, if_match=read, role="member", disabled=True)
    assert changed.role == "member"
    assert changed.disabled_at is not None
    with pytest.raises(PreconditionFailedError):
        client.users.update(made.id, if_match=read, disabled=False)
    with pytest.raises(ConflictError):
        client.users.create_link(made.id)


def test_usage(client: Journeyman) -> None:
    client.jobs.create("shop", prompt="[[say hi]]").wait(timeout=WAIT)
    report = client.usage.report(group_by=["project", "model"], project="shop")
    assert report.total.runs > 0
    assert {line.project for line in report.lines} == {"shop"}
    assert (report.to - report.from_).days == 29
    today = datetime.now(timezone.utc).date()
    assert (
        client.usage.report(
            from_=today, to=today, model="none/x", key=client.me().key.id
        ).total.runs
        == 0
    )
    rows = list(csv.DictReader(client.usage.csv(group_by=["day"], author="tests").splitlines()))
    assert int(rows[0]["runs"]) > 0


def test_audit(client: Journeyman) -> None:
    key = client.keys.create(name="audited")
    client.keys.revoke(key.id)
    newest = [entry for entry in client.audit.list(page_size=50) if entry.subject == key.id]
    assert [entry.action for entry in newest] == ["key.revoked", "key.created"]
    rows = list(csv.reader(client.audit.export().splitlines()))
    assert rows[0][0] == "id"
    assert any(key.id in row for row in rows)


def test_service(client: Journeyman) -> None:
    assert client.me().manages_projects
    assert client.system().version
    assert client.agents()
    assert any(provider.id == "anthropic" for provider in client.models())
