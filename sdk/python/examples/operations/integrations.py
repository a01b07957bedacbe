"""Calls the operations on trusts and on Slack workspaces.

The reference at ``/docs`` of a server shows each region as the example of the operation that it is
named after. Set JOURNEYMAN_URL and JOURNEYMAN_KEY. The server needs a project ``shop``, and a
stand-in for Slack as its ``slack-api-url``. CI_TOKEN can have a token of a CI service.
"""

import os

from journeyman_client import APIError, Journeyman, PermissionDeniedError


def manage_trusts(client: Journeyman) -> None:
    """Creates, changes and deletes a trust."""
    # region createTrust
    trust = client.trusts.create(
        name="shop-ci",
        issuer="https://token.actions.githubusercontent.com",
        claims={"repository": "acme/shop", "ref": "refs/heads/main"},
        projects=["shop"],
        scope="jobs",
    )
    print(trust.id, trust.audience)
    # endregion

    # region listTrusts
    for listed in client.trusts.list():
        print(listed.name, listed.issuer, listed.last_used_at)
    # endregion

    trust_id = trust.id
    # region getTrust
    found = client.trusts.get(trust_id)
    print(found.claims, found.projects)
    # endregion

    # region changeTrust
    changed = client.trusts.update(trust_id, if_match=found, scope="read")
    print(changed.scope)
    # endregion

    # region deleteTrust
    client.trusts.delete(trust_id)
    # endregion


def exchange(token: str) -> None:
    """Exchanges a token, and uses the key."""
    # region exchangeToken
    try:
        exchanged = Journeyman.exchange_token(token)  # a token of the CI service; needs no key
        with Journeyman(key=exchanged.secret) as client:  # works for 15 minutes
            print(client.me().key.name, exchanged.expires_at)
    except APIError as error:
        print(error.code, error.message)  # such as token_not_trusted
    # endregion


def manage_slack(client: Journeyman) -> None:
    """Connects, changes and removes a Slack workspace."""
    # region createSlackWorkspace
    workspace = client.slack.create(
        mode="events",
        bot_token="xoxb-example",  # noqa: S106
        signing_secret="8f742231b10e8888abcd99yyyzzz85a5",  # noqa: S106
        channels={"C012AB3CD": "shop"},
    )
    print(workspace.name, workspace.events_url)
    # endregion

    # region listSlackWorkspaces
    for listed in client.slack.list():
        print(listed.id, listed.name, listed.channels)
    # endregion

    workspace_id = workspace.id
    # region getSlackWorkspace
    found = client.slack.get(workspace_id)
    print(found.mode, found.has_bot_token)
    # endregion

    # region changeSlackWorkspace
    changed = client.slack.update(
        workspace_id,
        if_match=found,
        channels={"C045EF6GH": "shop", "C012AB3CD": None},  # None disconnects a channel
    )
    print(changed.channels)
    # endregion

    # region checkSlackWorkspace
    for finding in client.slack.check(workspace_id):
        print(finding.health, finding.text)
    # endregion

    # region listSlackEvents
    for event in client.slack.events(workspace_id):
        print(event.received_at, event.state, event.outcome, event.job_id)
    # endregion

    # region listSlackPosts
    for post in client.slack.posts(workspace_id):
        print(post.created_at, post.state, post.detail)
    # endregion

    # region createSlackCode
    try:
        print("link", client.slack.create_code().code)  # to send to the bot as a direct message
    except PermissionDeniedError as error:
        print(error.message)  # the key must belong to a user
    # endregion

    # region removeSlackWorkspace
    client.slack.delete(workspace_id)
    # endregion


def main() -> None:
    """Calls the operations."""
    with Journeyman() as client:
        manage_trusts(client)
        exchange(os.environ.get("CI_TOKEN", "not a token"))
        manage_slack(client)


if __name__ == "__main__":
    main()
