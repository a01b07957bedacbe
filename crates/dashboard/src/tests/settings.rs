//! Tests of the forms of a project's settings.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use journeyman_core::code_host::PullState;
use journeyman_core::model::Effort;
use journeyman_core::model::budget::Budgets;
use journeyman_core::ports::ProjectStore;
use journeyman_core::project::{
    Answers, CheckMode, CheckSettings, CheckoutSettings, CiFiles, CodeHostSettings, CommentSettings, CommitSettings,
    KeepUpToDate, Lfs, LimitSettings, PermissionPolicy, Project, PullPolicy, PullRequestSettings, Resolve,
    ReviewRequests, Reviews, SandboxSettings, SecretUse, Settings, Submodules, ToolKind,
};
use journeyman_core::user::Role;
use journeyman_testkit::Seeds as _;

use super::pulls::{Fake, detail};
use super::{Fixture, START, fixture};
use crate::words::in_query;

const SECTIONS: [&str; 7] = ["repository", "agent", "environment", "sandbox", "pull-requests", "comments", "limits"];

/// Returns settings without a default value, as far as their values can be changed in a form.
fn settings() -> Settings {
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let text = |text: &str| Some(text.to_owned());
    Settings {
        effort: Some(Effort::XHigh),
        code_host: CodeHostSettings { kind: None, host: None, username: text("bot"), allow_force_push: true },
        checkout: CheckoutSettings { submodules: Submodules::Off, lfs: Lfs::Off },
        commits: CommitSettings { subject: text("{type}: {summary}"), co_authors: false },
        pull_request: PullRequestSettings {
            draft: true,
            base: text("main"),
            title: text("{title} \"&<"),
            body: text("{summary}\n\n</textarea>"),
            labels: list(&["agent", "needs review"]),
            reviewers: list(&["ada", "acme/backend"]),
            assignees: list(&["ada"]),
            ci_files: CiFiles::Allow,
            ci_paths: list(&["ci/**", "deploy.yml"]),
            protected_branches: list(&["release/*"]),
            archive_on_merge: true,
            keep_up_to_date: KeepUpToDate::Conflicts,
            auto_merge: true,
        },
        comments: CommentSettings {
            reviews: Reviews::Mentioned,
            mention: text("helper"),
            settle_seconds: Some(5),
            issue_label: text("agent"),
            answers: Answers::Quiet,
            review_requests: ReviewRequests::Read,
            resolve: Resolve::Answered,
        },
        checks: CheckSettings {
            mode: CheckMode::Fix,
            attempts: Some(2),
            settle_seconds: Some(60),
            only: list(&["test *", "lint"]),
            ignore: list(&["deploy"]),
        },
        limits: LimitSettings {
            run_seconds: Some(60),
            create_per_hour: Some(2),
            message_per_hour: Some(3),
            file_bytes: Some(4 << 20),
            concurrent_runs: Some(5),
            memory_bytes: Some(600 << 20),
            processes: Some(70),
            cpu_millis: Some(800),
            disk_bytes: Some(900 << 20),
            output_bytes: Some(10 << 20),
            continuations: Some(1),
            model_calls: Some(12),
            automatic_per_day: Some(13),
            budget: Budgets { run: Some(1_500_000), job: Some(2_000_000), day: Some(3_000_000), project: Some(1) },
        },
        sandbox: SandboxSettings {
            permissions: PermissionPolicy::Refuse,
            permission_kinds: [(ToolKind::Read, PermissionPolicy::Allow)].into(),
            egress: list(&["npm", "intern.example.com:8443"]),
            image: text("debian:12"),
            pull: PullPolicy::Never,
        },
        environment: [("A".to_owned(), "b=c".to_owned())].into(),
        setup: text("npm ci\nnpm test"),
        secret_uses: [("TOKEN".to_owned(), [SecretUse::Agent].into())].into(),
    }
}

impl Fixture {
    /// Creates a project with all settings.
    async fn with_settings(&self, id: &str, repository: &str) -> Project {
        let mut project = Project::new(id.parse().unwrap(), repository, START);
        project.reference = Some("main".to_owned());
        project.settings = settings();
        let id = project.id.clone();
        self.store.create_project(project, [].into()).await.unwrap();
        self.stored(id.as_str()).await
    }

    async fn stored(&self, id: &str) -> Project {
        self.store.project(id.parse().unwrap()).await.unwrap().unwrap()
    }

    /// Returns the fields of a form as a browser sends them.
    async fn fields_of(&self, path: &str) -> Vec<(String, String)> {
        let page = self.send(Some(Role::Administrator), Method::GET, path, "").await;
        assert_eq!(page.status, StatusCode::OK, "{path}: {}", page.body);
        let form = page.body.split(&format!("method=\"post\" action=\"{path}\"")).nth(1).unwrap();
        fields(form.split("</form>").next().unwrap())
    }

    /// Sends a form, and returns the status of the answer.
    async fn save(&self, path: &str, fields: &[(String, String)]) -> StatusCode {
        let pairs = fields.iter().map(|(name, value)| format!("{}={}", in_query(name), in_query(value)));
        let form: Vec<String> = pairs.collect();
        self.send(Some(Role::Administrator), Method::POST, path, &form.join("&")).await.status
    }
}

/// Reads the fields of a form that a browser would send.
fn fields(form: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut select = None;
    for part in form.split('<').skip(1) {
        let (tag, text) = part.split_once('>').unwrap();
        let name = attribute(tag, "name").unwrap_or_default();
        let value = attribute(tag, "value");
        match tag.split([' ', '\n']).next().unwrap() {
            "input" if name.is_empty() => {}
            "input" => match attribute(tag, "type").as_deref() {
                Some("checkbox" | "radio") if !tag.ends_with(" checked") => {}
                Some("checkbox") => found.push((name, value.unwrap_or_else(|| "on".to_owned()))),
                _ => found.push((name, value.unwrap_or_default())),
            },
            "textarea" => found.push((name, unescaped(text).replace('\n', "\r\n"))),
            "select" => select = Some(name),
            "option" if tag.ends_with(" selected") => {
                found.push((select.clone().unwrap(), value.unwrap_or_else(|| unescaped(text))));
            }
            _ => {}
        }
    }
    found
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let rest = tag.split(&format!(" {name}=\"")).nth(1)?;
    Some(unescaped(rest.split('"').next()?))
}

fn unescaped(text: &str) -> String {
    [("&#34;", "\""), ("&#39;", "'"), ("&#60;", "<"), ("&#62;", ">"), ("&#10;", "\n"), ("&#38;", "&")]
        .into_iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[tokio::test]
async fn a_form_that_is_saved_unchanged_changes_nothing() {
    let fixture = fixture(Arc::new(Fake::with(detail(PullState::Open)))).await;
    for (id, repository) in [("remote", "https://git.example/acme/shop"), ("hosted", "local:hosted")] {
        let before = fixture.with_settings(id, repository).await;
        for section in SECTIONS {
            let path = format!("/projects/{id}/settings/{section}");
            let fields = fixture.fields_of(&path).await;
            assert_eq!(fixture.save(&path, &fields).await, StatusCode::SEE_OTHER, "{path} {fields:?}");
            let after = fixture.stored(id).await;
            let unchanged = Project { version: after.version, ..before.clone() };
            assert_eq!(after, unchanged, "{path}");
        }
    }
}

#[tokio::test]
async fn an_effort_is_chosen_in_the_form_of_the_agent_and_an_unknown_one_is_refused() {
    let fixture = fixture(Arc::new(Fake::with(detail(PullState::Open)))).await;
    fixture.with_settings("own", "https://git.example/acme/own").await;
    let path = "/projects/own/settings/agent";
    let page = fixture.send(Some(Role::Administrator), Method::GET, path, "").await.body;
    assert!(page.contains("<option value=\"xhigh\" selected>xhigh</option>"), "{page}");
    let with = async |effort: &str| {
        let mut fields = fixture.fields_of(path).await;
        fields.iter_mut().find(|(name, _)| name == "effort").unwrap().1 = effort.to_owned();
        (fixture.save(path, &fields).await, fixture.stored("own").await.settings.effort)
    };
    assert_eq!(with("low").await, (StatusCode::SEE_OTHER, Some(Effort::Low)));
    assert_eq!(with("huge").await, (StatusCode::UNPROCESSABLE_ENTITY, Some(Effort::Low)));
    assert_eq!(with("").await, (StatusCode::SEE_OTHER, None));
}

#[tokio::test]
async fn comments_issues_and_checks_are_set_in_their_form() {
    let fixture = fixture(Arc::new(Fake::with(detail(PullState::Open)))).await;
    fixture.with_settings("remote", "https://git.example/acme/shop").await;
    let path = "/projects/remote/settings/comments";
    let pairs = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(
        fixture.save(path, &pairs(&[("issues", "on"), ("answers", "on"), ("only", "a\r\n b ")])).await,
        StatusCode::SEE_OTHER
    );
    let saved = fixture.stored("remote").await.settings;
    assert_eq!(saved.comments, CommentSettings::default());
    let only = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(saved.checks, CheckSettings { only, ..CheckSettings::default() });
    assert_eq!(fixture.save(path, &pairs(&[("mention", "@helper")])).await, StatusCode::SEE_OTHER);
    assert_eq!(fixture.stored("remote").await.settings.comments.mention.as_deref(), Some("helper"));
    // Without the checkbox, no label makes a job of an issue.
    assert_eq!(fixture.save(path, &pairs(&[("issueLabel", "agent"), ("mode", "off")])).await, StatusCode::SEE_OTHER);
    let saved = fixture.stored("remote").await.settings;
    assert_eq!((saved.comments.issue_label(), saved.checks.mode), (None, CheckMode::Off));
    for (name, value, text) in [
        ("mode", "repair", "checks.mode: &#34;repair&#34; is not off, report or fix"),
        ("reviews", "none", "comments.reviews: &#34;none&#34; is not all, mentioned or off"),
        ("reviewRequests", "all", "comments.reviewRequests: &#34;all&#34; is not write, read or off"),
        ("settleSeconds", "soon", "settleSeconds: &#34;soon&#34; is not a whole number"),
        ("settleSeconds", "121", "comments.settleSeconds must be from 0 to 120"),
        ("attempts", "4294967296", "checks.attempts: must be at most 4294967295"),
    ] {
        let form = format!("{name}={}", in_query(value));
        let refused = fixture.send(Some(Role::Administrator), Method::POST, path, &form).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{form}: {}", refused.body);
        assert!(refused.body.contains(text), "{text} is not in {}", refused.body);
        assert_eq!(fixture.stored("remote").await.settings.checks.mode, CheckMode::Off, "{form}");
    }
}

#[tokio::test]
async fn a_project_of_the_built_in_code_host_has_no_settings_of_issues_and_checks() {
    let fixture = fixture(Arc::new(Fake::with(detail(PullState::Open)))).await;
    fixture.with_settings("hosted", "local:hosted").await;
    let fields = fixture.fields_of("/projects/hosted/settings/comments").await;
    let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["version", "mention", "settleSeconds", "reviews", "automaticPerDay"]);
}
