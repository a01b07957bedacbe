//! Apps: the requests that are signed with the key of the app, and the creation from a manifest.

use std::collections::{BTreeMap, BTreeSet};

use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::Method;
use journeyman_core::time::Timestamp;
use serde_json::{Value, json};

use super::super::state::{App, Installation, Repository, State, Token, User};
use super::super::{ApiRequest, Reply};
use super::answers::{AT, error, page};
use super::repository::{moved, show_minimal};
use super::users::show_owner;

/// The ID of the first installation.
const FIRST: usize = 55;

/// The permissions of every app of the stand-in.
fn of_app() -> Value {
    json!({
        "contents": "write", "pull_requests": "write", "issues": "write", "statuses": "write",
        "checks": "read", "actions": "read", "metadata": "read",
    })
}

/// Answers a request of the app itself.
pub(super) fn answer(state: &mut State, call: &ApiRequest, parts: &[&str]) -> Reply {
    let claims = match claims(call) {
        Ok(claims) => claims,
        Err(message) => return error(401, message),
    };
    let issuer = claims["iss"].as_str().map_or_else(|| claims["iss"].to_string(), str::to_owned);
    let is_it = |app: &&App| issuer == app.id.to_string() || issuer == client_id(app);
    let Some(app) = state.app.as_ref().filter(is_it).cloned() else { return error(401, "Integration not found") };
    match (&call.method, parts) {
        (&Method::GET, ["app"]) => Reply::json(200, &show_app(state, &app)),
        (&Method::GET, ["app", "installations"]) => {
            let mut listed: Vec<Value> =
                installations(state, &app).into_iter().map(|(id, owner)| show(state, &app, id, &owner)).collect();
            for shown in listed.iter_mut().filter_map(Value::as_object_mut) {
                // Only single installations have it in the description.
                shown.remove("client_id");
            }
            page(state, call, "app/installations", listed)
        }
        (&Method::GET, ["repos", owner, name, "installation"]) => {
            let path = format!("{owner}/{name}");
            if let Some(reply) = moved(state, call, &path, &["installation"]) {
                return reply;
            }
            let is_it = |(_, known): &(usize, String)| known.eq_ignore_ascii_case(owner);
            match installations(state, &app).into_iter().find(is_it) {
                Some((id, owner)) if state.by_path(&path).is_some() => {
                    let mut shown = show(state, &app, id, &owner);
                    if app.grants_less {
                        shown["permissions"] = json!({});
                    }
                    Reply::json(200, &shown)
                }
                _ => error(404, "Not Found"),
            }
        }
        (&Method::POST, ["app", "installations", id, "access_tokens"]) => {
            let known = installations(state, &app).into_iter().find(|(known, _)| known.to_string() == *id);
            match known {
                Some((_, owner)) => create_token(state, call, &app, &owner, &claims),
                None => error(404, "Not Found"),
            }
        }
        _ => error(404, "Not Found"),
    }
}

/// Returns the claims of the JSON web token of a request. Page "Generating a JSON Web Token (JWT) for a GitHub App": it
/// is signed with RS256, and ends at most 10 minutes after the request; `iat` should be 60 seconds earlier.
fn claims(call: &ApiRequest) -> Result<Value, &'static str> {
    const UNREADABLE: &str = "A JSON web token could not be decoded";
    let bearer = call.headers.get("authorization").and_then(|value| value.to_str().ok());
    let token = bearer.and_then(|value| value.strip_prefix("Bearer ")).ok_or(UNREADABLE)?;
    let (signed, signature) = token.rsplit_once('.').ok_or(UNREADABLE)?;
    let (head, payload) = signed.split_once('.').ok_or(UNREADABLE)?;
    let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
    let json = |part: &str| serde_json::from_slice::<Value>(&decoded(part)?).ok();
    let (head, claims) = (json(head).ok_or(UNREADABLE)?, json(payload).ok_or(UNREADABLE)?);
    let signature = decoded(signature).ok_or(UNREADABLE)?;
    let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public_key());
    if head["alg"] != "RS256" || key.verify(signed.as_bytes(), &signature).is_err() {
        return Err(UNREADABLE);
    }
    let Some(issued) = claims["iat"].as_i64() else {
        return Err("'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued");
    };
    let Some(end) = claims["exp"].as_i64().filter(|end| *end > issued) else {
        return Err(
            "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the \
                    assertion expires",
        );
    };
    if end - issued > 660 {
        return Err("'Expiration time' claim ('exp') is too far in the future");
    }
    Ok(claims)
}

/// Returns the public key of all apps.
fn public_key() -> Vec<u8> {
    let pem = super::super::rsa_key();
    let lines: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let pair = KeyPair::from_pkcs8(&STANDARD.decode(lines).unwrap()).unwrap();
    pair.public_key().as_ref().to_vec()
}

fn client_id(app: &App) -> String {
    format!("Iv1.{:016x}", app.id)
}

/// Describes an app (schema `integration`).
pub(super) fn show_app(state: &State, app: &App) -> Value {
    json!({
        "id": app.id, "slug": app.slug, "node_id": format!("A_{}", app.id), "client_id": client_id(app),
        "owner": show_owner(state, "acme"), "name": app.slug, "description": null, "external_url": state.url,
        "html_url": format!("{}/github-apps/{}", state.url, app.slug), "created_at": AT, "updated_at": AT,
        "permissions": of_app(), "events": [],
    })
}

/// Returns the IDs and the owners of the installations.
fn installations(state: &State, app: &App) -> Vec<(usize, String)> {
    let owners: BTreeSet<&str> = state.repositories.iter().map(Repository::owner).collect();
    let owners = owners.into_iter().filter(|owner| !app.missing.iter().any(|missing| missing == owner));
    owners.enumerate().map(|(at, owner)| (FIRST + at, owner.to_owned())).collect()
}

/// Describes an installation (schema `installation`).
fn show(state: &State, app: &App, id: usize, owner: &str) -> Value {
    let is_suspended = app.suspended.iter().any(|one| one == owner);
    let account = show_owner(state, owner);
    let api = format!("{}/api/v3", state.url);
    json!({
        "id": id, "target_id": account["id"], "target_type": account["type"], "repository_selection": "all",
        "access_tokens_url": format!("{api}/app/installations/{id}/access_tokens"),
        "repositories_url": format!("{api}/installation/repositories"),
        "html_url": format!("{}/organizations/{owner}/settings/installations/{id}", state.url),
        "app_id": app.id, "app_slug": app.slug, "client_id": client_id(app), "permissions": granted(app),
        "events": [], "created_at": AT, "updated_at": AT, "single_file_name": null,
        "suspended_by": is_suspended.then(|| account.clone()), "suspended_at": is_suspended.then_some(AT),
        "account": account,
    })
}

/// Returns the permissions that the installations of an app have.
fn granted(app: &App) -> Value {
    let mut granted = of_app();
    for name in &app.only_read {
        granted[*name] = "read".into();
    }
    if app.has_workflows {
        granted["workflows"] = "write".into();
    }
    granted
}

/// Answers operation `apps/create-installation-access-token`: a token gets what the request asks for, or everything that
/// the installation has, for an hour.
fn create_token(state: &mut State, call: &ApiRequest, app: &App, owner: &str, claims: &Value) -> Reply {
    if app.suspended.iter().any(|one| one == owner) {
        return error(403, "This installation has been suspended");
    }
    let of_installation = granted(app);
    let is_refused = |(name, level): (&String, &Value)| {
        let has = &of_installation[name];
        has.is_null() || (level == "write" && has != "write")
    };
    let asked = call.body["permissions"].as_object().cloned();
    if !app.grants_less && asked.iter().flatten().any(is_refused) {
        return error(422, "The permissions requested are not granted to this installation.");
    }
    let permissions = match asked {
        Some(asked) if !app.grants_less => Value::Object(asked),
        _ => of_installation,
    };
    let Ok(chosen) = chosen(state, call, owner) else {
        return error(
            422,
            "There is at least one repository that does not exist or is not accessible to the parent installation.",
        );
    };
    let user = state.users.iter().find(|user| user.name == format!("{}[bot]", app.slug)).unwrap().id;
    let known = state.app.as_mut().unwrap();
    known.issued += 1;
    let at = chosen.as_ref().and_then(|ids| ids.first()).copied().unwrap_or_default();
    let token = format!("ghs_{}.{at}-{}", "x".repeat(480), known.issued);
    let text = |(name, level): (&String, &Value)| (name.clone(), level.as_str().unwrap_or_default().to_owned());
    let names: BTreeMap<String, String> = permissions.as_object().into_iter().flatten().map(text).collect();
    let can_write = names.get("contents").is_some_and(|level| level == "write");
    let installation = Installation { owner: owner.to_owned(), repositories: chosen.clone(), permissions: names };
    let only = chosen.as_ref().filter(|ids| ids.len() == 1).and_then(|ids| ids.first().copied());
    let known = Token { user, repository: only, can_write, installation: Some(installation), ..Token::default() };
    state.tokens.insert(token.clone(), known);
    // The hour begins at the time of the request, of which the request tells.
    let end = Timestamp::from_micros((claims["iat"].as_i64().unwrap_or_default() + 3600) * 1_000_000);
    let mut shown = json!({
        "token": token, "expires_at": end.to_string().replace(".000", ""), "permissions": permissions,
        "repository_selection": if chosen.is_some() { "selected" } else { "all" },
    });
    if let Some(ids) = chosen {
        let listed = state.repositories.iter().filter(|one| ids.contains(&one.id));
        shown["repositories"] = listed.map(|one| show_minimal(state, one)).collect();
    }
    Reply::json(201, &shown)
}

/// Returns the repositories that a request for a token names; `None` if it names none.
fn chosen(state: &State, call: &ApiRequest, owner: &str) -> Result<Option<BTreeSet<u64>>, ()> {
    let (names, ids) = (call.body["repositories"].as_array(), call.body["repository_ids"].as_array());
    if names.is_none() && ids.is_none() {
        return Ok(None);
    }
    let of_owner = || state.repositories.iter().filter(|one| one.owner() == owner);
    let by_name = |name: &Value| {
        let name = name.as_str()?;
        of_owner().find(|one| one.name().eq_ignore_ascii_case(name)).map(|one| one.id)
    };
    let by_id = |id: &Value| of_owner().find(|one| Some(one.id) == id.as_u64()).map(|one| one.id);
    let names = names.into_iter().flatten().map(by_name);
    let found = names.chain(ids.into_iter().flatten().map(by_id));
    found.collect::<Option<BTreeSet<u64>>>().map(Some).ok_or(())
}

/// Answers operation `apps/create-from-manifest`. The app is not installed on any repository. A code works once.
pub(super) fn created(state: &mut State, code: &str) -> Reply {
    let Some(webhook_secret) = state.manifest_codes.remove(code) else { return error(404, "Not Found") };
    let (id, slug) = (state.id(), "journeyman-test".to_owned());
    state.users.push(User { id: id + 1000, name: format!("{slug}[bot]"), is_bot: true });
    let missing = state.repositories.iter().map(|one| one.owner().to_owned()).collect();
    let app = App { id, slug, missing, ..App::default() };
    let mut shown = show_app(state, &app);
    shown["client_secret"] = "unused".into();
    shown["webhook_secret"] = webhook_secret.into();
    shown["pem"] = super::super::rsa_key().into();
    state.app = Some(app);
    Reply::json(201, &shown)
}
