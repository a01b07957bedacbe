//! `/projects/{project}/settings/{section}`: the settings of a project, with one page for each section.

mod edit;

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use journeyman_app::Error;
use journeyman_core::hosted_storage::{HostedStorage, StorageRecord};
use journeyman_core::import::ImportStage;
use journeyman_core::model::Effort;
use journeyman_core::model::price::day;
use journeyman_core::ports::Sums;
use journeyman_core::project::{
    Answers, CODE_HOST_TOKEN, CheckMode, CiFiles, KeepUpToDate, Lfs, PermissionPolicy, Project, PullPolicy, Resolve,
    ReviewRequests, Reviews, SecretUse, Submodules,
};
use journeyman_core::version::Precondition;

use super::findings::{self, Line};
use super::problem::Problem;
use super::projects::{TESTED, tested};
use crate::choices::{Choices, chosen_model};
use crate::failure::{Failure, Page, refusal, refused, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::in_project::InProject;
use crate::{Shared, visible, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/projects/{project}/settings", get(first))
        .route("/projects/{project}/settings/{section}", get(show).post(save))
        .route("/projects/{project}/delete", post(delete))
}

/// The sections, with their names in URLs and on the page. The section of templates is in [`super::templates`].
pub(super) const SECTIONS: [(&str, &str); 9] = [
    ("repository", "Repository"),
    ("agent", "Agent and model"),
    ("environment", "Environment and secrets"),
    ("sandbox", "Sandbox and egress"),
    ("pull-requests", "Pull requests"),
    ("comments", "Comments and checks"),
    ("limits", "Limits and budgets"),
    ("templates", "Templates"),
    ("use", "Code examples"),
];

/// What a project has spent on model calls.
struct Spent {
    today: String,
    all: String,
    /// The money that is set aside for calls in progress.
    set_aside: Option<String>,
}

#[derive(Template)]
#[template(path = "settings.html")]
struct SettingsPage<'a> {
    at: &'a InProject,
    frame: &'a Frame,
    section: &'static str,
    sections: [(&'static str, &'static str); 9],
    /// The input of the form, if it was refused.
    typed: Option<&'a Fields>,
    error: Option<String>,
    untested: bool,
    problem: Option<Problem>,
    /// The findings of the test of the repository.
    findings: Vec<Line>,
    has_token: bool,
    secrets: Vec<Secret>,
    spent: Option<Spent>,
    snippets: Vec<Snippet>,
    clone_url: Option<String>,
    /// The space that the repository takes.
    storage: Option<String>,
    /// What an import of the repository has left out.
    not_copied: Option<String>,
}

struct Secret {
    name: String,
    uses: Vec<&'static str>,
}

struct Snippet {
    id: &'static str,
    name: &'static str,
    text: String,
}

/// The values of the form's fields: the refused input, or otherwise the current settings.
impl SettingsPage<'_> {
    fn value(&self, name: &str, set: Option<&str>) -> String {
        match self.typed {
            Some(typed) => typed.text(name),
            None => set.unwrap_or_default().to_owned(),
        }
    }

    fn number<T: ToString + Copy>(&self, name: &str, set: &Option<T>) -> String {
        self.value(name, set.map(|number| number.to_string()).as_deref())
    }

    fn mebibytes(&self, name: &str, set: &Option<u64>) -> String {
        self.number(name, &set.map(edit::mebibytes))
    }

    fn cores(&self, name: &str, set: &Option<u32>) -> String {
        self.value(name, set.map(edit::cores).as_deref())
    }

    fn dollars(&self, name: &str, set: &Option<u64>) -> String {
        self.value(name, set.map(edit::dollars).as_deref())
    }

    fn environment(&self) -> String {
        let all = &self.at.project.settings.environment;
        let lines = all.iter().filter(|(_, value)| edit::is_line(value));
        let lines = lines.map(|(name, value)| format!("{name}={value}\n"));
        self.value("environment", Some(&lines.collect::<String>()))
    }

    /// Returns the names of the variables whose values do not fit into a line of the form.
    fn long_variables(&self) -> Vec<&str> {
        let all = &self.at.project.settings.environment;
        all.iter().filter(|(_, value)| !edit::is_line(value)).map(|(name, _)| name.as_str()).collect()
    }

    fn egress(&self) -> String {
        self.lines("egress", &self.at.project.settings.sandbox.egress)
    }

    fn listed(&self, name: &str, set: &[String]) -> String {
        self.value(name, Some(&set.join(", ")))
    }

    fn lines(&self, name: &str, set: &[String]) -> String {
        self.value(name, Some(&set.join("\n")))
    }

    /// Returns whether an option is selected. `set` is the name of the current setting.
    fn is_chosen(&self, name: &str, option: &str, set: &str) -> bool {
        self.value(name, Some(set)) == option
    }

    fn is_checked(&self, name: &str, set: bool) -> bool {
        self.typed.map_or(set, |typed| typed.is_set(name))
    }

    fn reviews(&self, option: &str) -> bool {
        let set = match self.at.project.settings.comments.reviews {
            Reviews::All => "all",
            Reviews::Mentioned => "mentioned",
            Reviews::Off => "off",
        };
        self.is_chosen("reviews", option, set)
    }

    fn review_requests(&self, option: &str) -> bool {
        let set = match self.at.project.settings.comments.review_requests {
            ReviewRequests::Write => "write",
            ReviewRequests::Read => "read",
            ReviewRequests::Off => "off",
        };
        self.is_chosen("reviewRequests", option, set)
    }

    fn mode(&self, option: &str) -> bool {
        let set = match self.at.project.settings.checks.mode {
            CheckMode::Off => "off",
            CheckMode::Report => "report",
            CheckMode::Fix => "fix",
        };
        self.is_chosen("mode", option, set)
    }

    fn keeps_up_to_date(&self, option: &str) -> bool {
        let set = match self.at.project.settings.pull_request.keep_up_to_date {
            KeepUpToDate::Off => "off",
            KeepUpToDate::Conflicts => "conflicts",
            KeepUpToDate::Always => "always",
        };
        self.is_chosen("keepUpToDate", option, set)
    }

    fn fills_submodules(&self) -> bool {
        self.is_checked("submodules", self.at.project.settings.checkout.submodules == Submodules::Read)
    }

    fn fetches_lfs(&self) -> bool {
        self.is_checked("lfs", self.at.project.settings.checkout.lfs == Lfs::Fetch)
    }

    fn allows_force_push(&self) -> bool {
        self.is_checked("allowForcePush", self.at.project.settings.code_host.allow_force_push)
    }

    fn answers_in_full(&self) -> bool {
        self.is_checked("answers", self.at.project.settings.comments.answers == Answers::Full)
    }

    fn resolves_threads(&self) -> bool {
        self.is_checked("resolve", self.at.project.settings.comments.resolve == Resolve::Answered)
    }

    fn names_co_authors(&self) -> bool {
        self.is_checked("coAuthors", self.at.project.settings.commits.co_authors)
    }

    fn allows_ci_files(&self) -> bool {
        self.is_checked("ciFiles", self.at.project.settings.pull_request.ci_files == CiFiles::Allow)
    }

    /// Returns the agents and models to choose from.
    fn agent_choices(&self) -> Choices {
        let project = &self.at.project;
        let agent = self.value("agent", Some(&project.agent));
        let model = match self.typed {
            Some(typed) => chosen_model(typed).unwrap_or_default(),
            None => project.model.clone(),
        };
        let effort = self.value("effort", project.settings.effort.map(Effort::name));
        Choices::of_project(&self.frame.shared, Some(project), (&agent, &model, &effort))
    }

    /// Returns whether the new secret is for this use. By default, a secret is for the setup command.
    fn gives(&self, use_: &str) -> bool {
        self.typed.map_or(use_ == "setup", |typed| typed.all("secret-use").iter().any(|given| given == use_))
    }

    fn refuses(&self) -> bool {
        let set = self.at.project.settings.sandbox.permissions == PermissionPolicy::Refuse;
        self.typed.map_or(set, |typed| typed.text("permissions") == "refuse")
    }

    fn pulls(&self, policy: &str) -> bool {
        let set = match self.at.project.settings.sandbox.pull {
            PullPolicy::Missing => "missing",
            PullPolicy::Always => "always",
            PullPolicy::Never => "never",
        };
        self.is_chosen("pull", policy, set)
    }

    fn may_change(&self) -> bool {
        self.frame.viewer.is_administrator()
    }
}

async fn first(at: InProject) -> Redirect {
    Redirect::to(&at.path("/settings/repository"))
}

async fn show(State(shared): State<Shared>, at: InProject, Path((_, section)): Path<(String, String)>) -> Response {
    let page = async { rendered(&page(&shared, &at, known(&section)?).await?) };
    at.answer(page.await)
}

fn known(section: &str) -> Result<&'static str, Failure> {
    let found = SECTIONS.into_iter().find(|(name, _)| *name == section);
    found.map(|(name, _)| name).ok_or(Failure::NotFound("settings section"))
}

async fn page<'a>(shared: &Shared, at: &'a InProject, section: &'static str) -> Result<SettingsPage<'a>, Failure> {
    let project = &at.project;
    let spent = if section == "limits" {
        // With an ID that no job has, only the amounts of the day and of the project are returned.
        let no_job = journeyman_core::ids::JobId::from_uuid(uuid::Uuid::nil());
        let sums = Sums { project: project.id.clone(), job: no_job, day: day(at.now) };
        let [_, today, all] = shared.services.store.used(&sums).await?;
        let set_aside = (all.set_aside > 0).then(|| words::money(all.set_aside));
        Some(Spent { today: words::money(today.spent), all: words::money(all.spent), set_aside })
    } else {
        None
    };
    let uses = |name: &String| {
        let known = [(SecretUse::Setup, "setup"), (SecretUse::Agent, "agent"), (SecretUse::Model, "model")];
        known.into_iter().filter(|(one, _)| project.settings.secret_is_for(name, *one)).map(|(_, text)| text).collect()
    };
    let is_shown = section == "repository" && at.is_hosted();
    let names = project.secret_names.iter().filter(|name| *name != CODE_HOST_TOKEN);
    Ok(SettingsPage {
        at,
        frame: at,
        section,
        sections: SECTIONS,
        typed: None,
        error: None,
        untested: false,
        problem: if section == "repository" { Problem::of(shared, at).await? } else { None },
        findings: Vec::new(),
        has_token: project.secret_names.iter().any(|name| name == CODE_HOST_TOKEN),
        secrets: names.map(|name| Secret { name: name.clone(), uses: uses(name) }).collect(),
        spent,
        snippets: snippets(at),
        storage: if is_shown { at.cases().storage(project).await.map(|record| space(&record)) } else { None },
        not_copied: if is_shown { not_copied(shared, project).await? } else { None },
        clone_url: at.is_hosted().then(|| format!("{}/git/{}.git", shared.settings.public_url, project.id)),
    })
}

/// Describes the space that a repository takes.
fn space(record: &StorageRecord) -> String {
    let HostedStorage { git_bytes, lfs_bytes, lfs_objects } = record.storage;
    let git = words::bytes(git_bytes);
    match lfs_objects {
        0 => format!("The repository takes {git}."),
        1 => format!("The repository takes {git}, and an object of Git LFS {}.", words::bytes(lfs_bytes)),
        _ => format!("The repository takes {git}, and {lfs_objects} objects of Git LFS {}.", words::bytes(lfs_bytes)),
    }
}

/// Returns what the last import into a repository has left out.
async fn not_copied(shared: &Shared, project: &Project) -> Result<Option<String>, Failure> {
    let import = shared.services.store.import_of(project.id.clone()).await?;
    Ok(match import.map(|import| import.state.stage) {
        Some(ImportStage::Finished { not_copied }) => not_copied.map(|text| words::sentence(&visible::line(&text))),
        _ => None,
    })
}

async fn save(
    State(shared): State<Shared>,
    at: InProject,
    Path((_, section)): Path<(String, String)>,
    fields: Fields,
) -> Response {
    at.answer(saved(&shared, &at, &section, &fields).await)
}

async fn saved(shared: &Shared, at: &InProject, section: &str, fields: &Fields) -> Page {
    at.needs_administrator()?;
    let section = known(section)?;
    let mut error = None;
    let (mut untested, mut findings) = (false, Vec::new());
    let only_tests = section == "repository" && fields.is_set("test");
    match edit::of(section, fields, &at.project) {
        Ok(edit) => {
            let (caller, id) = (at.caller(), &at.project.id);
            if only_tests || (section == "repository" && !fields.is_set("untested")) {
                let tested = tested(at, at.cases().test_project(&caller, id, edit::boxed(&edit)).await)?;
                (untested, error, findings) = (tested.is_unusable, tested.error, tested.findings);
            }
            if error.is_none() && !only_tests {
                // The form has every field of its section, so it would undo changes that others have made meanwhile.
                match at.cases().change_project(&caller, id, fields.precondition(), edit::boxed(&edit)).await {
                    Ok(_) => {
                        let back = at.path(&format!("/settings/{section}?done=saved"));
                        return Ok(Redirect::to(&back).into_response());
                    }
                    Err(Error::Admin(refusal)) if refusal.is_version_mismatch() => {
                        let text = "Someone has changed the project since you opened this page. Compare your input \
                                    with the current settings (open this page again), and save it then.";
                        error = Some(text.to_owned());
                    }
                    Err(failed) => error = Some(refusal(failed)?),
                }
            }
        }
        Err(text) => error = Some(words::sentence(&text)),
    }
    let has_passed = error.is_none();
    if has_passed && at.can_stream {
        return findings::in_place(TESTED, &findings);
    }
    let mut page = page(shared, at, section).await?;
    page.typed = Some(fields);
    (page.error, page.untested, page.findings) = (error, untested, findings);
    if has_passed { rendered(&page) } else { refused(&page) }
}

async fn delete(at: InProject, fields: Fields) -> Response {
    let page = async {
        at.needs_administrator()?;
        if fields.text("id").trim() != at.project.id.as_str() {
            return Err(Failure::Form("the project was not deleted: the entered text is not its ID".to_owned()));
        }
        at.cases().delete_project(&at.caller(), &at.project.id, Precondition::None).await?;
        Ok(Redirect::to("/projects?done=deleted").into_response())
    };
    at.answer(page.await)
}

/// Returns examples of programs that send a job to this project.
fn snippets(at: &InProject) -> Vec<Snippet> {
    let (url, id) = (&at.shared.settings.public_url, at.project.id.as_str());
    let python = format!(
        r#"import os, time, requests

api = "{url}/v2/agent/{id}"
session = requests.Session()
session.headers["Authorization"] = f"Bearer {{os.environ['JOURNEYMAN_KEY']}}"

job = session.post(f"{{api}}/job", json={{"prompt": "Fix the typo in the README"}}).json()
while job["status"] == "active":
    job = session.get(f"{{api}}/job/{{job['id']}}", params={{"wait": 60}}).json()
print(job["status"], job["prLink"])"#
    );
    let typescript = format!(
        r#"const api = "{url}/v2/agent/{id}";
const headers = {{
  Authorization: `Bearer ${{process.env.JOURNEYMAN_KEY}}`,
  "Content-Type": "application/json",
}};

const body = JSON.stringify({{ prompt: "Fix the typo in the README" }});
let job = await (await fetch(`${{api}}/job`, {{ method: "POST", headers, body }})).json();
while (job.status === "active") {{
  job = await (await fetch(`${{api}}/job/${{job.id}}?wait=60`, {{ headers }})).json();
}}
console.log(job.status, job.prLink);"#
    );
    let actions = format!(
        r#"name: Journeyman
on:
  issues:
    types: [labeled]
jobs:
  send:
    if: github.event.label.name == 'journeyman'
    runs-on: ubuntu-latest
    steps:
      - env:
          KEY: ${{{{ secrets.JOURNEYMAN_KEY }}}}
          PROMPT: ${{{{ github.event.issue.title }}}} ${{{{ github.event.issue.body }}}}
        run: |
          jq -n --arg prompt "$PROMPT" '{{prompt: $prompt}}' |
            curl --fail-with-body {url}/v2/agent/{id}/job \
              -H "Authorization: Bearer $KEY" -H "Content-Type: application/json" \
              -H "Idempotency-Key: issue-${{{{ github.event.issue.number }}}}" -d @-"#
    );
    vec![
        Snippet { id: "curl", name: "curl", text: super::projects::curl(at, id, "$JOURNEYMAN_KEY") },
        Snippet { id: "python", name: "Python", text: python },
        Snippet { id: "typescript", name: "TypeScript", text: typescript },
        Snippet { id: "actions", name: "GitHub Actions", text: actions },
    ]
}
