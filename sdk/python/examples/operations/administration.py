"""Calls the operations on projects, templates, code hosts, keys and users, and those that report.

The reference at ``/docs`` of a server shows each region as the example of the operation that it is
named after. Set JOURNEYMAN_URL and JOURNEYMAN_KEY. The server needs a project ``shop`` with
the test model, and no project ``cafe``.
"""

from datetime import datetime, timedelta, timezone

from journeyman_client import Journeyman


def manage_projects(client: Journeyman) -> None:
    """Tests, creates, changes and deletes a project."""
    # region testNewProject
    findings = client.projects.test_new(id="cafe", repository="local:shop")
    for finding in findings:
        print(finding.health, finding.text)
    # endregion

    # region createProject
    project = client.projects.create(
        id="cafe",
        repository="local:cafe",
        limits={"budget": {"run_micros": 5_000_000}},  # 5 US dollars for each run
    )
    print(project.id, project.etag)
    # endregion

    # region listProjects
    for project in client.projects.list():
        print(project.id, project.repository)
    # endregion

    # region getProject
    project = client.projects.get("cafe")
    print(project.agent, project.model)
    # endregion

    # region changeProject
    project = client.projects.update("cafe", if_match=project, setup="npm ci")
    print(project.setup)
    # endregion

    # region testProject
    findings = client.projects.test("shop", setup="true")
    print(all(finding.health == "ok" for finding in findings))
    # endregion

    # region deleteProject
    client.projects.delete("cafe", if_match=project)
    # endregion


def manage_templates(client: Journeyman) -> None:
    """Creates, changes and deletes a template."""
    # region createTemplate
    template = client.templates.create(
        "shop",
        name="Fix a bug",
        prompt="Fix the bug below, and add a test that fails without the fix.\n\n",
        labels=["bug"],
    )
    print(template.id, template.name)
    # endregion

    # region listTemplates
    for listed in client.templates.list("shop"):
        print(listed.name, listed.description)
    # endregion

    template_id = template.id
    # region getTemplate
    template = client.templates.get("shop", template_id)
    print(template.prompt, template.labels)  # to create a job with
    # endregion

    # region changeTemplate
    template = client.templates.update("shop", template_id, if_match=template, agent="journeyman")
    print(template.agent)
    # endregion

    # region deleteTemplate
    client.templates.delete("shop", template_id)
    # endregion


def manage_code_hosts(client: Journeyman) -> None:
    """Creates, checks and removes a code host."""
    # region createCodeHost
    host = client.code_hosts.create(
        id="gitea",
        kind="gitea",
        url="http://127.0.0.1:9",
        token="a token of the code host",  # noqa: S106
    )
    print(host.webhook_url)
    # endregion

    # region listCodeHosts
    for host in client.code_hosts.list():
        print(host.id, host.kind, host.url)
    # endregion

    # region getCodeHost
    host = client.code_hosts.get("gitea")
    print(host.has_token)
    # endregion

    # region replaceCodeHost
    host = client.code_hosts.replace(
        "gitea", if_match=host, kind="gitea", url="http://127.0.0.1:9", trusted_bots=["4711"]
    )
    print(host.trusted_bots)
    # endregion

    # region checkCodeHost
    for finding in client.code_hosts.check("gitea"):
        print(finding.health, finding.text)
    # endregion

    # region removeCodeHost
    client.code_hosts.delete("gitea", if_match=host)
    # endregion

    # region listInbox
    for event in client.inbox.list(state="failed"):
        print(event.received_at, event.host, event.event, event.detail)
    # endregion

    # region listProjectInbox
    for event in client.inbox.list("shop"):
        print(event.received_at, event.event, event.outcome)
    # endregion


def manage_keys(client: Journeyman) -> None:
    """Creates, rotates and revokes a key."""
    # region getMe
    me = client.me()
    print(me.key.name, me.key.scopes, me.manages_projects)
    # endregion

    # region createKey
    key = client.keys.create(
        name="ci",
        scopes=["jobs"],
        projects=["shop"],
        expires_at=datetime.now(timezone.utc) + timedelta(days=30),
    )
    secret = key.secret  # store it now: no other response contains it
    # endregion

    # region listKeys
    for listed in client.keys.list():
        print(listed.id, listed.name, listed.last_used_at)
    # endregion

    key_id, old_secret = key.id, secret
    # region getKey
    found = client.keys.get(key_id)
    print(found.name, found.expires_at, found.revoked_at)
    # endregion

    # region rotateKey
    rotated = client.keys.rotate(key_id, keep_old_seconds=3600)
    secret = rotated.secret  # the old secret works for an hour more
    # endregion

    # region revokeKey
    client.keys.revoke(key_id)
    # endregion
    assert secret != old_secret  # noqa: S101


def manage_users(client: Journeyman) -> None:
    """Creates, changes and disables a user."""
    # region createUser
    user = client.users.create(name="ada@example.com", role="member")
    url = user.link.url  # send it to the user: no other response contains it
    # endregion

    # region listUsers
    for listed in client.users.list():
        print(listed.name, listed.role, listed.signed_in_at)
    # endregion

    user_id, old_url = user.id, url
    # region getUser
    found = client.users.get(user_id)
    print(found.name, found.has_password, found.disabled_at)
    # endregion

    # region createUserLink
    link = client.users.create_link(user_id)
    url = link.url  # the old link no longer works
    # endregion

    # region changeUser
    changed = client.users.update(user_id, if_match=found, role="viewer", disabled=True)
    print(changed.role, changed.disabled_at)
    # endregion
    assert url != old_url  # noqa: S101


def read_reports(client: Journeyman) -> None:
    """Reads reports, and the settings of the server."""
    # region getUsage
    report = client.usage.report(group_by=["day", "model"], project="shop")
    print(report.total.runs, report.total.cost_micros)
    # endregion

    # region listAudit
    for entry in client.audit.list(page_size=10):
        print(entry.at, entry.actor_name, entry.action, entry.subject)
        break  # without it, the loop reads all pages
    # endregion

    # region exportAudit
    print(client.audit.export())  # CSV
    # endregion

    # region listAgents
    print([agent.id for agent in client.agents()])
    # endregion

    # region listModels
    for provider in client.models():
        print(provider.id, provider.ready)
    # endregion

    # region getSystem
    print(client.system().version)
    # endregion


def main() -> None:
    """Calls the operations."""
    with Journeyman() as client:
        manage_projects(client)
        manage_templates(client)
        manage_code_hosts(client)
        manage_keys(client)
        manage_users(client)
        read_reports(client)


if __name__ == "__main__":
    main()
