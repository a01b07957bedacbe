//! The form of a code host, to add and to edit one.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use journeyman_app::{Answered, Error};
use journeyman_core::code_host::draft::Draft;
use journeyman_core::code_host::{Access, DefinedIn, HostKind, HostSecret, HostSecretChanges};
use journeyman_core::ports::DescribedHost;
use journeyman_core::secret::SecretValue;
use journeyman_core::user::new_token;

use super::parsed;
use crate::failure::{Failure, Page, refusal, refused, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::pages::secret::NewSecret;
use crate::{Shared, words};

#[derive(Template)]
#[template(path = "code_host_form.html")]
struct FormPage<'a> {
    frame: &'a Frame,
    kind: HostKind,
    /// The stored code host; `None` in the form of a new one.
    current: Option<DescribedHost>,
    /// The input of the form, if it was refused.
    typed: Option<&'a Fields>,
    error: Option<String>,
}

impl FormPage<'_> {
    fn value(&self, name: &str, stored: impl Fn(&DescribedHost) -> Option<String>, usual: &str) -> String {
        match (self.typed, &self.current) {
            (Some(typed), _) => typed.text(name),
            (None, Some(current)) => stored(current).unwrap_or_default(),
            (None, None) => usual.to_owned(),
        }
    }

    fn id(&self) -> String {
        let usual = self.kind.name().replace('_', "-");
        self.value("id", |current| Some(current.host.id.to_string()), &usual)
    }

    fn url(&self) -> String {
        let usual = match self.kind {
            HostKind::Github => "https://github.com",
            HostKind::Gitlab => "https://gitlab.com",
            HostKind::Bitbucket => "https://bitbucket.org",
            HostKind::Gitea | HostKind::Forgejo | HostKind::BitbucketDataCenter => "",
        };
        self.value("url", |current| Some(current.host.url.clone()), usual)
    }

    fn api_url(&self) -> String {
        self.value("api-url", |current| current.host.api_url.clone(), "")
    }

    fn username(&self) -> String {
        let stored = |current: &DescribedHost| match &current.host.access {
            Some(Access::Token { username }) => username.clone(),
            _ => None,
        };
        self.value("username", stored, "")
    }

    fn app_id(&self) -> String {
        let stored = |current: &DescribedHost| match current.host.access {
            Some(Access::App { app_id, .. }) => Some(app_id.to_string()),
            _ => None,
        };
        self.value("app-id", stored, "")
    }

    fn app_slug(&self) -> String {
        let stored = |current: &DescribedHost| match &current.host.access {
            Some(Access::App { slug, .. }) => Some(slug.clone()),
            _ => None,
        };
        self.value("app-slug", stored, "")
    }

    fn trusted_bots(&self) -> String {
        let stored =
            |current: &DescribedHost| Some(current.host.trusted_bots.iter().cloned().collect::<Vec<_>>().join("\n"));
        self.value("trusted-bots", stored, "")
    }

    fn is_checked(&self, name: &str, usual: bool) -> bool {
        self.typed.map_or(usual, |typed| typed.is_set(name))
    }

    fn has(&self, secret: fn(&DescribedHost) -> bool) -> bool {
        self.current.as_ref().is_some_and(secret)
    }

    fn has_token(&self) -> bool {
        self.has(|current| current.has_token)
    }

    fn has_private_key(&self) -> bool {
        self.has(|current| current.has_private_key)
    }

    fn has_webhook_secret(&self) -> bool {
        self.has(|current| current.has_webhook_secret)
    }

    fn is_github(&self) -> bool {
        self.kind == HostKind::Github
    }

    /// Returns the permissions that the token needs.
    const fn permissions(&self) -> &'static str {
        match self.kind {
            HostKind::Github => {
                "A fine-grained token with contents, pull requests, issues and commit statuses: write; actions: read. \
                 An app is better: its tokens are valid for an hour, and it can read the checks of all services."
            }
            HostKind::Gitlab => {
                "A project or group access token with the role Developer, and the scopes api and write_repository."
            }
            HostKind::Gitea | HostKind::Forgejo => {
                "A token of a user with write access: write:repository, write:issue, read:user."
            }
            HostKind::Bitbucket => {
                "An API token: read:user; read and write:repository; read and write:pullrequest; read:pipeline; \
                 admin:repository, to read the permissions of people. The user name is the email address of the \
                 account."
            }
            HostKind::BitbucketDataCenter => "An HTTP access token with the permission repository: write.",
        }
    }
}

/// Reads the kind, which a link or the form names.
fn kind(fields: &Fields) -> Result<HostKind, Failure> {
    match fields.given("kind") {
        None => Ok(HostKind::Github),
        Some(name) => HostKind::parse(&name).ok_or(Failure::NotFound("kind of code host")),
    }
}

pub(super) async fn new(frame: Frame, fields: Fields) -> Response {
    let page = async {
        frame.needs_administrator()?;
        rendered(&FormPage { frame: &frame, kind: kind(&fields)?, current: None, typed: None, error: None })
    };
    frame.answer(page.await)
}

pub(super) async fn create(State(shared): State<Shared>, frame: Frame, fields: Fields) -> Response {
    frame.answer(created(&shared, &frame, &fields).await)
}

async fn created(shared: &Shared, frame: &Frame, fields: &Fields) -> Page {
    frame.needs_administrator()?;
    let kind = kind(fields)?;
    let refuse = |text: String| {
        let error = Some(words::sentence(&text));
        refused(&FormPage { frame, kind, current: None, typed: Some(fields), error })
    };
    let id = match fields.text("id").trim().parse() {
        Ok(id) => id,
        Err(error) => return refuse(format!("{error}")),
    };
    let mut draft = match draft(fields, kind) {
        Ok(draft) => draft,
        Err(text) => return refuse(text),
    };
    let generated = (fields.is_set("generate") && !draft.secrets.contains_key(&HostSecret::Webhook))
        .then(|| new_token(&*shared.services.ids).0);
    if let Some(secret) = &generated {
        draft.secrets.insert(HostSecret::Webhook, Some(SecretValue(secret.clone())));
    }
    match frame.cases().create_code_host(&frame.caller(), &id, &draft, None, |_| String::new()).await {
        Ok(Answered::New(_) | Answered::Replayed(_)) => {}
        Err(error) => return refuse(refusal(error)?),
    }
    match generated {
        Some(secret) => {
            let new = NewSecret {
                heading: format!("The code host {id}"),
                back: ("/system/code-hosts".to_owned(), "Code hosts".to_owned()),
                request: "Create the webhook now".to_owned(),
                text: "Create a webhook with this URL, the content type JSON and this secret at the code host."
                    .to_owned(),
                times: Vec::new(),
                values: vec![
                    ("hook-url".to_owned(), frame.cases().webhook_url(&id)),
                    ("hook-secret".to_owned(), secret),
                ],
                example: None,
            };
            new.show(frame)
        }
        None => Ok(Redirect::to("/system/code-hosts?done=created").into_response()),
    }
}

/// Returns the code host that a form edits.
async fn stored(frame: &Frame, id: &str) -> Result<DescribedHost, Failure> {
    frame.needs_administrator()?;
    let found = frame.cases().code_host(&frame.caller(), &parsed(id)?).await?;
    if found.host.defined_in == DefinedIn::Store {
        return Ok(found);
    }
    Err(Failure::Form("this code host is defined in the configuration file of the service; change it there".to_owned()))
}

pub(super) async fn edit(frame: Frame, Path(id): Path<String>) -> Response {
    let page = async {
        let current = stored(&frame, &id).await?;
        let (kind, frame) = (current.host.kind, &frame);
        rendered(&FormPage { frame, kind, current: Some(current), typed: None, error: None })
    };
    frame.answer(page.await)
}

pub(super) async fn save(frame: Frame, Path(id): Path<String>, fields: Fields) -> Response {
    frame.answer(saved(&frame, &id, &fields).await)
}

async fn saved(frame: &Frame, id: &str, fields: &Fields) -> Page {
    let mut current = stored(frame, id).await?;
    let (id, kind) = (current.host.id.clone(), current.host.kind);
    current.host.version = fields.version(current.host.version);
    let text = match draft(fields, kind) {
        Err(text) => words::sentence(&text),
        Ok(draft) => match frame.cases().replace_code_host(&frame.caller(), &id, fields.precondition(), draft).await {
            Ok(_) => return Ok(Redirect::to("/system/code-hosts?done=saved").into_response()),
            Err(Error::Admin(refusal)) if refusal.is_version_mismatch() => {
                "Someone has changed the code host since you opened this page. Open it again, and repeat the change."
                    .to_owned()
            }
            Err(error) => refusal(error)?,
        },
    };
    refused(&FormPage { frame, kind, current: Some(current), typed: Some(fields), error: Some(text) })
}

/// Reads the form.
fn draft(fields: &Fields, kind: HostKind) -> Result<Draft, String> {
    let app_id = fields.given("app-id").map(|text| {
        let number = text.parse();
        number.map_err(|_| format!("app-id: {text:?} is not a number; GitHub shows it in the settings of the app"))
    });
    let mut secrets = HostSecretChanges::new();
    for (name, secret) in
        [("token", HostSecret::Token), ("private-key", HostSecret::PrivateKey), ("webhook-secret", HostSecret::Webhook)]
    {
        let given = Some(fields.text(name)).filter(|text| !text.trim().is_empty());
        if let Some(text) = given {
            secrets.insert(secret, Some(SecretValue(text.trim().to_owned())));
        } else if fields.is_set(&format!("no-{name}")) {
            secrets.insert(secret, None);
        }
    }
    Ok(Draft {
        kind,
        url: fields.text("url"),
        api_url: fields.given("api-url"),
        username: fields.given("username"),
        app_id: app_id.transpose()?,
        app_slug: fields.given("app-slug"),
        trusted_bots: fields.lines("trusted-bots").into_iter().collect(),
        secrets,
    })
}
