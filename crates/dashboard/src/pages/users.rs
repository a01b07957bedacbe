//! `/users`: the users of the dashboard, for administrators.

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use journeyman_app::{Answered, CreatedLink};
use journeyman_core::decision::user::UserChanges;
use journeyman_core::user::{Role, User};

use super::secret::NewSecret;
use crate::failure::{Failure, Page, refusal, refused, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::moment::Moment;
use crate::toast::{self, SmallForm};
use crate::{Shared, visible};

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/users", get(list).post(create))
        .route("/users/{user}/role", post(role))
        .route("/users/{user}/disable", post(disable))
        .route("/users/{user}/enable", post(enable))
        .route("/users/{user}/link", post(link))
        .route("/users/{user}/disconnect", post(disconnect))
        .route("/users/{user}/second-factor/remove", post(remove_second_factor))
}

#[derive(Template)]
#[template(path = "users.html")]
struct UsersPage<'a> {
    frame: &'a Frame,
    rows: Vec<Row>,
    name: String,
    role: Role,
    error: Option<String>,
}

struct Row {
    id: String,
    name: String,
    role: Role,
    is_self: bool,
    disabled: bool,
    version: u64,
    method: &'static str,
    /// True if an administrator can disconnect the user from the provider.
    can_disconnect: bool,
    has_second_factor: bool,
    created: Moment,
    signed_in: Option<Moment>,
}

impl UsersPage<'_> {
    fn roles(&self) -> [Role; 3] {
        Role::ALL
    }
}

async fn users<'a>(shared: &Shared, frame: &'a Frame) -> Result<UsersPage<'a>, Failure> {
    let users = shared.services.store.users().await?;
    let row = |user: &User| Row {
        id: user.id.to_string(),
        name: visible::line(&user.name).into_owned(),
        role: user.role,
        is_self: user.id == frame.viewer.user.id,
        disabled: user.disabled_at.is_some(),
        version: user.version,
        method: match (&user.identity, &user.password) {
            (Some(_), Some(_)) => "with the provider or a password",
            (Some(_), None) => "with the provider",
            (None, Some(_)) => "with a password",
            (None, None) => "no password yet",
        },
        can_disconnect: user.identity.is_some() && user.id != frame.viewer.user.id,
        has_second_factor: user.has_second_factor(),
        created: frame.moment(user.created_at),
        signed_in: user.signed_in_at.map(|at| frame.moment(at)),
    };
    Ok(UsersPage { frame, rows: users.iter().map(row).collect(), name: String::new(), role: Role::Member, error: None })
}

async fn list(State(shared): State<Shared>, frame: Frame) -> Response {
    let page = async {
        frame.needs_administrator()?;
        rendered(&users(&shared, &frame).await?)
    };
    frame.answer(page.await)
}

async fn create(State(shared): State<Shared>, frame: Frame, fields: Fields) -> Response {
    frame.answer(created(&shared, &frame, &fields).await)
}

async fn created(shared: &Shared, frame: &Frame, fields: &Fields) -> Page {
    frame.needs_administrator()?;
    let name = fields.text("name");
    let made = match Role::parse(&fields.text("role")) {
        Some(role) => {
            let created = frame.cases().create_user(&frame.caller(), &name, role, None, |_| String::new()).await;
            created.map_err(refusal)
        }
        None => Err(Ok("Choose a role.".to_owned())),
    };
    match made {
        Ok(Answered::New(created)) => show_link(frame, &created.user, created.link),
        Ok(Answered::Replayed(_)) => Err(Failure::Form("the user has already been added".to_owned())),
        Err(text) => {
            let mut page = users(shared, frame).await?;
            page.name = name;
            page.role = Role::parse(&fields.text("role")).unwrap_or(page.role);
            page.error = Some(text?);
            refused(&page)
        }
    }
}

/// Redirects to the page with a new link of a user.
fn show_link(frame: &Frame, user: &User, link: CreatedLink) -> Page {
    let text = "The user can set a password with it once, within seven days. Send it through a channel that only this \
                person can read.";
    let new = NewSecret {
        heading: format!("A link for {}", visible::line(&user.name)),
        back: ("/users".to_owned(), "Users".to_owned()),
        request: "Copy the link now".to_owned(),
        text: text.to_owned(),
        times: Vec::new(),
        values: vec![("link".to_owned(), link.url)],
        example: None,
    };
    new.show(frame)
}

async fn found(shared: &Shared, frame: &Frame, id: &str) -> Result<User, Failure> {
    frame.needs_administrator()?;
    let id = id.parse().map_err(|_| Failure::NotFound("user"))?;
    shared.services.store.user(id).await?.ok_or(Failure::NotFound("user"))
}

async fn link(State(shared): State<Shared>, frame: Frame, Path(id): Path<String>) -> Response {
    let page = async {
        let user = found(&shared, &frame, &id).await?;
        match frame.cases().create_link(&frame.caller(), user.id, None, |_| String::new()).await? {
            Answered::New(link) => show_link(&frame, &user, link),
            Answered::Replayed(_) => Err(Failure::Form("the link has already been created".to_owned())),
        }
    };
    frame.answer(page.await)
}

async fn role(State(shared): State<Shared>, frame: Frame, Path(id): Path<String>, fields: Fields) -> Response {
    let page = async {
        let user = found(&shared, &frame, &id).await?;
        let role = Role::parse(&fields.text("role")).ok_or(Failure::NotFound("role"))?;
        let changes = UserChanges { role: Some(role), ..UserChanges::default() };
        frame.cases().change_user(&frame.caller(), user.id, fields.precondition(), changes).await?;
        Ok(Redirect::to("/users?done=saved").into_response())
    };
    frame.answer(page.await)
}

async fn disable(State(shared): State<Shared>, frame: Frame, Path(id): Path<String>, fields: Fields) -> Response {
    let page = async {
        let user = found(&shared, &frame, &id).await?;
        let changes = UserChanges { disabled: Some(true), ..UserChanges::default() };
        frame.cases().change_user(&frame.caller(), user.id, fields.precondition(), changes).await?;
        Ok(Redirect::to("/users?done=disabled").into_response())
    };
    frame.answer(page.await)
}

async fn enable(State(shared): State<Shared>, frame: Frame, Path(id): Path<String>, fields: Fields) -> Response {
    let page = async {
        let user = found(&shared, &frame, &id).await?;
        let changes = UserChanges { disabled: Some(false), ..UserChanges::default() };
        frame.cases().change_user(&frame.caller(), user.id, fields.precondition(), changes).await?;
        Ok(toast::undoable(&frame, "/users", "enabled", &SmallForm::new(format!("/users/{}/disable", user.id))))
    };
    frame.answer(page.await)
}

async fn remove_second_factor(
    State(shared): State<Shared>,
    frame: Frame,
    Path(id): Path<String>,
    fields: Fields,
) -> Response {
    let page = async {
        let user = found(&shared, &frame, &id).await?;
        let changes = UserChanges { has_second_factor: Some(false), ..UserChanges::default() };
        frame.cases().change_user(&frame.caller(), user.id, fields.precondition(), changes).await?;
        Ok(toast::confirmed("/users", "user_second_factor_removed"))
    };
    frame.answer(page.await)
}

async fn disconnect(State(shared): State<Shared>, frame: Frame, Path(id): Path<String>, fields: Fields) -> Response {
    let page = async {
        let user = found(&shared, &frame, &id).await?;
        let changes = UserChanges { has_identity: Some(false), ..UserChanges::default() };
        frame.cases().change_user(&frame.caller(), user.id, fields.precondition(), changes).await?;
        Ok(toast::confirmed("/users", "unlinked"))
    };
    frame.answer(page.await)
}
