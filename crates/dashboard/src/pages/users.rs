//! `/users`: who may sign in, for administrators.

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use journeyman_core::ids::UserId;
use journeyman_core::ports::UserWriteError;
use journeyman_core::user::{Role, SIGN_IN_LINK_LIFETIME, SignInLink, User, new_token, user_name};

use crate::failure::{Failure, Page, refused, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::interface::Refusal;
use crate::moment::Moment;
use crate::{Shared, visible, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/users", get(list).post(create))
        .route("/users/{user}/role", post(role))
        .route("/users/{user}/disable", post(disable))
        .route("/users/{user}/enable", post(enable))
        .route("/users/{user}/link", post(link))
}

#[derive(Template)]
#[template(path = "users.html")]
struct UsersPage<'a> {
    frame: &'a Frame,
    rows: Vec<Row>,
    name: String,
    role: Role,
    error: Option<String>,
    /// A link that was just made, and for whom.
    link: Option<(String, String)>,
}

struct Row {
    id: String,
    name: String,
    role: Role,
    is_self: bool,
    disabled: bool,
    way: &'static str,
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
        way: match (&user.identity, &user.password) {
            (Some(_), _) => "by the provider",
            (None, Some(_)) => "with a password",
            (None, None) => "has no password yet",
        },
        created: frame.moment(user.created_at),
        signed_in: user.signed_in_at.map(|at| frame.moment(at)),
    };
    Ok(UsersPage {
        frame,
        rows: users.iter().map(row).collect(),
        name: String::new(),
        role: Role::Member,
        error: None,
        link: None,
    })
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
    let made = async {
        let name = user_name(&fields.text("name")).map_err(|error| words::sentence(&error.to_string()))?;
        let role = Role::parse(&fields.text("role")).ok_or("Choose a role.")?;
        let user = User {
            id: UserId::from_uuid(shared.services.ids.uuid(frame.now)),
            name,
            role,
            password: None,
            identity: None,
            created_at: frame.now,
            signed_in_at: None,
            disabled_at: None,
        };
        let entry = frame.viewer.audit(frame.now, "user.created", user.id);
        shared
            .services
            .store
            .create_user(user.clone(), entry)
            .await
            .map_err(|error| words::sentence(&error.to_string()))?;
        Ok::<_, String>(user)
    };
    match made.await {
        Ok(user) => with_link(shared, frame, &user).await,
        Err(text) => {
            let mut page = users(shared, frame).await?;
            page.name = fields.text("name");
            page.role = Role::parse(&fields.text("role")).unwrap_or(page.role);
            page.error = Some(text);
            refused(&page)
        }
    }
}

/// The page with a new link for somebody: shown this once.
async fn with_link(shared: &Shared, frame: &Frame, user: &User) -> Page {
    let (token, hash) = new_token(&*shared.services.ids);
    let link = SignInLink { hash, user: Some(user.id), expires_at: frame.now + SIGN_IN_LINK_LIFETIME };
    let entry = frame.viewer.audit(frame.now, "user.link", user.id);
    shared.services.store.create_link(link, entry).await?;
    let mut page = users(shared, frame).await?;
    let address = format!("{}/setup?link={token}", shared.settings.public_url);
    page.link = Some((visible::line(&user.name).into_owned(), address));
    rendered(&page)
}

async fn found(shared: &Shared, frame: &Frame, id: &str) -> Result<User, Failure> {
    frame.needs_administrator()?;
    let id = id.parse().map_err(|_| Failure::NotFound("user"))?;
    shared.services.store.user(id).await?.ok_or(Failure::NotFound("user"))
}

async fn link(State(shared): State<Shared>, frame: Frame, Path(id): Path<String>) -> Response {
    let page = async {
        let user = found(&shared, &frame, &id).await?;
        with_link(&shared, &frame, &user).await
    };
    frame.answer(page.await)
}

async fn role(State(shared): State<Shared>, frame: Frame, Path(id): Path<String>, fields: Fields) -> Response {
    let page = async {
        let user = found(&shared, &frame, &id).await?;
        let role = Role::parse(&fields.text("role")).ok_or(Failure::NotFound("role"))?;
        let entry = frame.viewer.audit(frame.now, &format!("user.role.{}", role.name()), user.id);
        written(&shared, shared.services.store.set_role(user.id, role, entry).await)?;
        Ok(Redirect::to("/users?done=saved").into_response())
    };
    frame.answer(page.await)
}

async fn disable(State(shared): State<Shared>, frame: Frame, Path(id): Path<String>) -> Response {
    let page = async {
        let user = found(&shared, &frame, &id).await?;
        let entry = frame.viewer.audit(frame.now, "user.disabled", user.id);
        written(&shared, shared.services.store.set_disabled(user.id, true, entry).await)?;
        Ok(Redirect::to("/users?done=disabled").into_response())
    };
    frame.answer(page.await)
}

async fn enable(State(shared): State<Shared>, frame: Frame, Path(id): Path<String>) -> Response {
    let page = async {
        let user = found(&shared, &frame, &id).await?;
        let entry = frame.viewer.audit(frame.now, "user.enabled", user.id);
        written(&shared, shared.services.store.set_disabled(user.id, false, entry).await)?;
        Ok(Redirect::to("/users?done=enabled").into_response())
    };
    frame.answer(page.await)
}

/// Keys may have ended with it: what is remembered of them is forgotten.
fn written(shared: &Shared, done: Result<(), UserWriteError>) -> Result<(), Failure> {
    shared.services.interface.forget();
    done.map_err(|error| match error {
        UserWriteError::Store(error) => Failure::Store(error),
        other => {
            let text = words::sentence(&other.to_string());
            Failure::Refused(Refusal { status: StatusCode::CONFLICT, text })
        }
    })
}
