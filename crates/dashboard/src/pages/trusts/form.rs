//! The form of a trust, to create and to edit one.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use journeyman_app::{Answered, Error};
use journeyman_core::ids::ProjectId;
use journeyman_core::key::Scope;
use journeyman_core::trust::{Trust, TrustSettings};

use super::parsed;
use crate::failure::{Failure, Page, refusal, refused, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::{Shared, words};

/// The input of the fields.
struct Input {
    name: String,
    issuer: String,
    audience: String,
    claims: String,
    read_only: bool,
    /// The IDs of the selected projects.
    projects: Vec<String>,
}

impl Input {
    /// Returns the usual rules of a CI service, by the name that a link has; without a name, those of GitHub Actions.
    fn preset(name: Option<&str>, audience: &str) -> Result<Self, Failure> {
        let (name, issuer, claims) = match name {
            None | Some("github") => (
                "github-actions",
                "https://token.actions.githubusercontent.com",
                "repository = OWNER/REPOSITORY\nref = refs/heads/main",
            ),
            Some("gitlab") => ("gitlab-ci", "https://gitlab.com", "project_path = GROUP/PROJECT\nref_protected = true"),
            Some("other") => ("", "", ""),
            Some(_) => return Err(Failure::NotFound("preset")),
        };
        let [name, issuer, audience, claims] = [name, issuer, audience, claims].map(str::to_owned);
        Ok(Self { name, issuer, audience, claims, read_only: false, projects: Vec::new() })
    }

    /// Returns the rules of a stored trust.
    fn stored(settings: &TrustSettings) -> Self {
        let claims: Vec<String> =
            settings.claims.iter().map(|(claim, pattern)| format!("{claim} = {pattern}")).collect();
        Self {
            name: settings.name.clone(),
            issuer: settings.issuer.clone(),
            audience: settings.audience.clone(),
            claims: claims.join("\n"),
            read_only: settings.scope == Scope::Read,
            projects: settings.projects.iter().map(ToString::to_string).collect(),
        }
    }

    /// Returns the input of a form.
    fn typed(fields: &Fields) -> Self {
        Self {
            name: fields.text("name"),
            issuer: fields.text("issuer"),
            audience: fields.text("audience"),
            claims: fields.text("claims"),
            read_only: fields.text("scope") == "read",
            projects: fields.all("project"),
        }
    }
}

#[derive(Template)]
#[template(path = "trust_form.html")]
struct FormPage<'a> {
    frame: &'a Frame,
    /// The ID and the version of the stored trust; `None` in the form of a new one.
    current: Option<(String, u64)>,
    input: Input,
    /// The projects, and whether each is selected.
    projects: Vec<(ProjectId, bool)>,
    error: Option<String>,
}

impl<'a> FormPage<'a> {
    async fn new(
        shared: &Shared,
        frame: &'a Frame,
        current: Option<(String, u64)>,
        input: Input,
        error: Option<String>,
    ) -> Result<Self, Failure> {
        let known = shared.services.store.projects().await?.into_iter();
        let projects = known.map(|project| {
            let is_selected = input.projects.iter().any(|id| id == project.id.as_str());
            (project.id, is_selected)
        });
        let projects = projects.collect();
        Ok(Self { frame, current, input, projects, error })
    }
}

pub(super) async fn new(State(shared): State<Shared>, frame: Frame, fields: Fields) -> Response {
    let page = async {
        frame.needs_administrator()?;
        let preset = fields.given("preset");
        let input = Input::preset(preset.as_deref(), frame.cases().default_audience())?;
        rendered(&FormPage::new(&shared, &frame, None, input, None).await?)
    };
    frame.answer(page.await)
}

pub(super) async fn create(State(shared): State<Shared>, frame: Frame, fields: Fields) -> Response {
    frame.answer(created(&shared, &frame, &fields).await)
}

async fn created(shared: &Shared, frame: &Frame, fields: &Fields) -> Page {
    frame.needs_administrator()?;
    let text = match settings(frame, fields) {
        Err(text) => words::sentence(&text),
        Ok(settings) => match frame.cases().create_trust(&frame.caller(), settings, None, |_| String::new()).await {
            Ok(Answered::New(_) | Answered::Replayed(_)) => {
                return Ok(Redirect::to("/system/trusts?done=created").into_response());
            }
            Err(error) => refusal(error)?,
        },
    };
    refused(&FormPage::new(shared, frame, None, Input::typed(fields), Some(text)).await?)
}

/// Returns the trust that a form edits.
async fn stored(frame: &Frame, id: &str) -> Result<Trust, Failure> {
    frame.needs_administrator()?;
    Ok(frame.cases().trust(&frame.caller(), parsed(id)?).await?)
}

pub(super) async fn edit(State(shared): State<Shared>, frame: Frame, Path(id): Path<String>) -> Response {
    let page = async {
        let trust = stored(&frame, &id).await?;
        let current = Some((trust.id.to_string(), trust.version));
        rendered(&FormPage::new(&shared, &frame, current, Input::stored(&trust.settings), None).await?)
    };
    frame.answer(page.await)
}

pub(super) async fn save(
    State(shared): State<Shared>,
    frame: Frame,
    Path(id): Path<String>,
    fields: Fields,
) -> Response {
    frame.answer(saved(&shared, &frame, &id, &fields).await)
}

async fn saved(shared: &Shared, frame: &Frame, id: &str, fields: &Fields) -> Page {
    let trust = stored(frame, id).await?;
    let text = match settings(frame, fields) {
        Err(text) => words::sentence(&text),
        Ok(settings) => {
            let edit = Box::new(move |_: &TrustSettings| settings.clone());
            match frame.cases().change_trust(&frame.caller(), trust.id, fields.precondition(), edit).await {
                Ok(_) => return Ok(Redirect::to("/system/trusts?done=saved").into_response()),
                Err(Error::Admin(refusal)) if refusal.is_version_mismatch() => {
                    "Someone has changed the trust since you opened this page. Open it again, and repeat the change."
                        .to_owned()
                }
                Err(error) => refusal(error)?,
            }
        }
    };
    let current = Some((trust.id.to_string(), fields.version(trust.version)));
    refused(&FormPage::new(shared, frame, current, Input::typed(fields), Some(text)).await?)
}

/// Reads the form.
fn settings(frame: &Frame, fields: &Fields) -> Result<TrustSettings, String> {
    let projects: Result<Vec<ProjectId>, _> = fields.all("project").iter().map(|id| id.parse()).collect();
    Ok(TrustSettings {
        name: fields.text("name").trim().to_owned(),
        issuer: fields.text("issuer").trim().to_owned(),
        audience: fields.given("audience").unwrap_or_else(|| frame.cases().default_audience().to_owned()),
        claims: claims(&fields.lines("claims"))?,
        projects: projects.map_err(|error| format!("projects: {error}"))?,
        scope: if fields.text("scope") == "read" { Scope::Read } else { Scope::Jobs },
    })
}

/// Reads a claim and its pattern from each line.
fn claims(lines: &[String]) -> Result<BTreeMap<String, String>, String> {
    let mut claims = BTreeMap::new();
    for line in lines {
        // The name of a claim has no spaces, but can have an equals sign.
        let (claim, pattern) = line.split_once(" = ").or_else(|| line.split_once('=')).ok_or_else(|| {
            format!("claims: write a claim and its pattern in each line, such as repository = acme/shop, not {line:?}")
        })?;
        if claims.insert(claim.trim().to_owned(), pattern.trim().to_owned()).is_some() {
            return Err(format!("claims: {:?} is given twice; a claim has one pattern", claim.trim()));
        }
    }
    Ok(claims)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_claims_are_read_as_the_form_shows_them() {
        for (line, claim, pattern) in [
            ("repository = acme/shop", "repository", "acme/shop"),
            ("repository=acme/*", "repository", "acme/*"),
            ("sub = a=b", "sub", "a=b"),
            ("sub = a = b", "sub", "a = b"),
            ("x=y = z", "x=y", "z"),
        ] {
            let read = claims(&[line.to_owned()]).unwrap();
            assert_eq!(read, [(claim.to_owned(), pattern.to_owned())].into(), "{line}");
            let settings = TrustSettings {
                name: "ci".to_owned(),
                issuer: "https://id.example".to_owned(),
                audience: "a".to_owned(),
                claims: read.clone(),
                projects: Vec::new(),
                scope: Scope::Read,
            };
            let shown = Input::stored(&settings);
            assert_eq!((claims(&[shown.claims]).unwrap(), shown.read_only), (read, true), "{line}");
        }
        for lines in [&["repository"][..], &["a = b", "a = c"]] {
            let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            assert!(claims(&lines).unwrap_err().starts_with("claims: "), "{lines:?}");
        }
    }
}
