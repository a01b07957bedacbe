"""Runs the GitHub Action and the GitLab CI component against the program that was built, as their runners would.

The steps of sdk/action/action.yml get their inputs as its mapping `env` says; the template of sdk/gitlab gets its inputs
in the text. A stand-in for the issuer signs the tokens.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml
from issuer import REQUEST_TOKEN, Issuer
from program import ENVIRONMENT, ROOT, SUITE_WAIT, UNLIMITED, Server, serving

ACTION = ROOT / "sdk/action"
TEMPLATE = ROOT / "sdk/gitlab/templates/journeyman.yml"

WRITE = "Say hello [[write hello.txt|Hello]]"
INJECTION = "x'; touch injected; \"$(touch injected)\" `touch injected` [[say hi]]"


@dataclass
class Result:
    code: int
    text: str
    outputs: dict[str, str]
    summary: str = ""


def lines_of(path: Path) -> dict[str, str]:
    """Reads lines of the form NAME=VALUE."""
    text = path.read_text() if path.exists() else ""
    return dict(line.split("=", 1) for line in text.splitlines())


def act(folder: Path, issuer: Issuer | None, tools: Path | None = None, **inputs: str) -> Result:
    """Runs the only step of the Action. Programs in `tools` replace those of the machine."""
    action = yaml.safe_load((ACTION / "action.yml").read_text())
    [step] = action["runs"]["steps"]
    known = {name: str(one.get("default", "")) for name, one in action["inputs"].items()}
    given = {name.replace("_", "-"): value for name, value in inputs.items()}
    assert given.keys() <= known.keys(), given
    context = {f"inputs.{name}": value for name, value in {**known, **given}.items()}
    context["github.action_path"] = str(ACTION)
    assert "${{" not in step["run"], "an input in the command could run other commands"
    values = {name: re.sub(r"\$\{\{ (\S+) \}\}", lambda found: context[found[1]], text) for name, text in step["env"].items()}
    output, summary = folder / "output", folder / "summary"
    for path in (output, summary):
        path.write_text("")
    environment = {**ENVIRONMENT, **values, "GITHUB_ACTIONS": "true"}
    environment |= {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary)}
    if tools:
        environment["PATH"] = f"{tools}:{environment['PATH']}"
    if issuer:
        environment["ACTIONS_ID_TOKEN_REQUEST_URL"] = f"{issuer.url}/token?api-version=2.0"
        environment["ACTIONS_ID_TOKEN_REQUEST_TOKEN"] = REQUEST_TOKEN
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
        env=environment, cwd=folder, capture_output=True, text=True, timeout=SUITE_WAIT,
    )
    text = done.stdout + done.stderr
    masked = re.findall(r"^::add-mask::(.+)$", text, re.MULTILINE)
    # The runner removes these lines, and masks their values afterwards.
    shown = re.sub(r"^::add-mask::.*\n", "", text, flags=re.MULTILINE)
    hidden(shown + output.read_text() + summary.read_text(), masked)
    return Result(done.returncode, shown, lines_of(output), summary.read_text())


def hidden(text: str, secrets: list[str]) -> None:
    """Checks that no secret is in an output."""
    assert not any(secret in text for secret in secrets), "a secret is in the output"
    assert "jmn_" not in text and "eyJ" not in text and REQUEST_TOKEN not in text, text


def gitlab(folder: Path, issuer: Issuer, **inputs: str) -> Result:
    """Runs the script of the component."""
    text = TEMPLATE.read_text()
    head, _ = text.split("\n---\n", 1)
    spec = yaml.safe_load(head)["spec"]["inputs"]
    given = {name.replace("_", "-"): value for name, value in inputs.items()}
    assert given.keys() <= spec.keys(), given
    values = {name: given.get(name, (one or {}).get("default")) for name, one in spec.items()}
    body = re.sub(r"\$\[\[ inputs\.(\S+) \]\]", lambda found: values[found[1]], text.split("\n---\n", 1)[1])
    [(name, job)] = yaml.safe_load(body).items()
    assert name == "journeyman", name
    [(variable, wanted)] = job["id_tokens"].items()
    environment = {**ENVIRONMENT, **{name: str(value) for name, value in job["variables"].items()}, "GITLAB_CI": "true"}
    environment[variable] = issuer.token(wanted["aud"])
    (folder / "journeyman.env").unlink(missing_ok=True)
    # A runner writes the entries of the list into one script.
    script = "set -eo pipefail\n" + "\n".join(job["script"])
    command = ["bash", "-c", script]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=SUITE_WAIT)
    text = done.stdout + done.stderr
    hidden(text, issuer.tokens)
    return Result(done.returncode, text, lines_of(folder / job["artifacts"]["reports"]["dotenv"]))


def check(result: Result, code: int, *texts: str) -> Result:
    assert result.code == code, (result.code, result.text)
    for text in texts:
        assert text in result.text, (text, result.text)
    return result


def check_action(folder: Path, server: Server, issuer: Issuer, key: str) -> None:
    place = {"url": server.url, "project": "shop"}
    issuer.claims = {"sub": "repo:acme/shop:ref:refs/heads/main", "repository": "acme/shop", "ref": "refs/heads/main"}
    made = check(act(folder, issuer, **place, prompt=WRITE, title="Say hello", labels="ci, nightly"), 0)
    assert made.outputs["status"] == "completed", made
    assert re.fullmatch(r"job_[0-9a-f]{32}", made.outputs["job-id"]), made
    assert made.outputs["pr-link"].startswith(f"{server.url}/projects/shop/pulls/"), made
    assert made.outputs["job-url"] == f"{server.url}/projects/shop/jobs/{made.outputs['job-id']}", made
    assert made.outputs["pr-link"] in made.summary and made.outputs["job-url"] in made.summary, made

    more = act(folder, issuer, **place, job=made.outputs["job-id"], prompt="More [[write more.txt|More]]")
    check(more, 0)
    assert (more.outputs["job-id"], more.outputs["pr-link"]) == (made.outputs["job-id"], made.outputs["pr-link"]), more

    (folder / "prompt.md").write_text("From a file\n\n[[say hi]]\n")
    filed = check(act(folder, issuer, **place, prompt_file="prompt.md", wait="false"), 0)
    assert filed.outputs["status"] == "active" or filed.outputs["status"] == "completed", filed
    check(act(folder, issuer, **place, prompt=INJECTION), 0)
    assert not (folder / "injected").exists(), "a prompt has run a command"
    check(act(folder, None, **place, prompt="[[say hi]]", api_key=key), 0)

    failed = check(act(folder, issuer, **place, prompt="[[fail broken]]"), 3, "the job ended as failed: ", "broken")
    assert failed.outputs["status"] == "failed" and failed.outputs["job-id"], failed
    slow = check(act(folder, issuer, **place, prompt="[[sleep 3600]]", timeout_minutes="0"), 8, "it continues")
    assert slow.outputs["status"] == "active", slow
    status, canceled = server.call("POST", f"/v2/agent/shop/job/{slow.outputs['job-id']}/cancel", key)
    assert status == 200, canceled

    check(act(folder, None, **place, prompt="x"), 4, "id-token: write")
    check(act(folder, issuer, **place, prompt=""), 2, "prompt: is empty")
    check(act(folder, issuer, **place, prompt="x", prompt_file="prompt.md"), 2, "either prompt or prompt-file")
    check(act(folder, issuer, **place, prompt="x", wait="perhaps"), 2, "wait:")
    check(act(folder, issuer, **place, prompt="x", timeout_minutes="soon"), 2, "timeout-minutes:")
    check(act(folder, issuer, **place, prompt="x", job=made.outputs["job-id"], model="m"), 2, "model:")
    check(act(folder, issuer, url=server.url, project="../keys", prompt="x"), 2, "project:")
    check(act(folder, issuer, url="file:///etc/passwd", project="shop", prompt="x"), 2, "url:")
    check(act(folder, issuer, url=server.url, project="other", prompt="x"), 5, "there is no such project")
    check(act(folder, issuer, **place, prompt="x", trust="nothing"), 4, "no trust")

    issuer.claims["repository"] = "mallory/shop"
    check(act(folder, issuer, **place, prompt="x"), 4, "no trust accepts this token", "repository=mallory/shop")
    check(act(folder, issuer, **place, prompt="x", audience="https://elsewhere.test"), 4, "aud=https://elsewhere.test")


def program(folder: Path, name: str, script: str) -> Path:
    """Writes a program that replaces one of the machine, whose path it has as $real."""
    tools = folder / f"{name}-tools"
    tools.mkdir()
    path = tools / name
    path.write_text(f"#!/bin/sh\nreal={shutil.which(name)} folder={tools}\n{script}")
    path.chmod(0o755)
    return tools


# A clock that is 400 seconds later each time.
LATER = """
echo >>"$folder/readings"
echo $(($("$real" +%s) + 400 * $(wc -l <"$folder/readings")))
"""

# Revokes all exchanged keys before the first request for the record of a job.
REVOKING = """
case $* in *"?wait="*)
  if mkdir "$folder/once" 2>/dev/null; then
    "$real" -sf -H "Authorization: Bearer KEY" "URL/v2/keys?origin=exchanged" |
      jq -r '.keys[] | select(.name | startswith("oidc:")) | .id' |
      while read -r id; do "$real" -sf -X DELETE -H "Authorization: Bearer KEY" "URL/v2/keys/$id" || exit 1; done
    touch "$folder/revoked"
  fi ;;
esac
exec "$real" "$@"
"""


def check_new_keys(folder: Path, server: Server, issuer: Issuer, key: str) -> None:
    """A wait that is longer than the life of a key exchanges a token again, and so does a read with a key that has ended."""
    # With the clock that is later each time, the usual limit of an hour would end the wait for a job that begins late.
    place = {"url": server.url, "project": "shop", "prompt": "[[say hi]]", "timeout_minutes": "9999"}
    issuer.claims = {"sub": "repo:acme/shop:ref:refs/heads/main", "repository": "acme/shop", "ref": "refs/heads/main"}

    def exchanges(tools: Path | None) -> int:
        before = len(issuer.tokens)
        done = check(act(folder, issuer, tools, **place), 0)
        assert done.outputs["status"] == "completed", done
        return len(issuer.tokens) - before

    assert exchanges(None) == 1, "a short wait needs one key"
    assert exchanges(program(folder, "date", LATER)) >= 2, "a key is replaced after 10 minutes"
    tools = program(folder, "curl", REVOKING.replace("KEY", key).replace("URL", server.url))
    assert exchanges(tools) == 2, "a read whose key has ended is repeated with another"
    assert (tools / "revoked").exists(), "the keys were not revoked"


def check_gitlab(folder: Path, server: Server, issuer: Issuer) -> None:
    place = {"url": server.url, "project": "shop"}
    issuer.claims = {"sub": "project_path:acme/shop:ref_type:branch:ref:main", "project_path": "acme/shop"}
    made = check(gitlab(folder, issuer, **place, prompt=WRITE), 0)
    assert made.outputs["JOURNEYMAN_STATUS"] == "completed", made
    assert made.outputs["JOURNEYMAN_PR_LINK"].startswith(f"{server.url}/projects/shop/pulls/"), made
    more = check(gitlab(folder, issuer, **place, prompt="[[say hi]]", job=made.outputs["JOURNEYMAN_JOB_ID"]), 0)
    assert more.outputs["JOURNEYMAN_JOB_ID"] == made.outputs["JOURNEYMAN_JOB_ID"], more
    check(gitlab(folder, issuer, **place, prompt=""), 2, "prompt: is empty")
    issuer.claims["project_path"] = "mallory/shop"
    check(gitlab(folder, issuer, **place, prompt="x"), 4, "no trust accepts this token", "project_path=mallory/shop")


def main() -> None:
    with serving("--log=warn", "--oidc-networks=127.0.0.0/8", *UNLIMITED) as server:
        path = server.data.parent
        issuer = Issuer(path)
        server.project(server.key("push"), "shop")
        trust = ["trust", "create", f"--issuer={issuer.url}", f"--audience={server.url}", "--project=shop"]
        server.run(*trust, "--name=actions", "--claim=repository=acme/*", "--claim=ref=refs/heads/**")
        server.run(*trust, "--name=gitlab", "--claim=project_path=acme/shop")
        work = path / "work"
        work.mkdir()
        check_action(work, server, issuer, server.key("ci", "--scope=jobs", "--project=shop"))
        check_new_keys(work, server, issuer, server.key("admin"))
        check_gitlab(work, server, issuer)
        log = server.log.read_text()
        assert "jmn_" not in log and not any(token in log for token in issuer.tokens), "a secret is in the log"
    print("ci: the GitHub Action and the GitLab CI component work")


main()
