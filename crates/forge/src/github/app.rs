//! Authentication as a GitHub App: a signed token of the app, and tokens of its installations, each for one repository.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::Method;
use journeyman_core::code_host::RepositoryPath;
use journeyman_core::code_host::manifest::PERMISSIONS;
use journeyman_core::ports::ForgeError;
use journeyman_core::secret::SecretValue;
use journeyman_core::time::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::hosted::AppAccount;
use crate::http::{Authorization, Http};
use crate::json::Id;

/// The lifetime of a token of the app. GitHub permits 10 minutes, and its clock may differ.
const APP_TOKEN_TIME: Duration = Duration::from_secs(9 * 60);

/// The time that a token of an installation must still be valid to be used again.
const LEAST_VALIDITY: Duration = Duration::from_secs(10 * 60);

/// A GitHub App.
pub(crate) struct App {
    app_id: u64,
    key: EncodingKey,
    tokens: Mutex<HashMap<String, Granted>>,
}

/// A token of an installation for one repository.
#[derive(Clone)]
pub(crate) struct Granted {
    pub(crate) token: SecretValue,
    /// `true` if it may push; `None` if GitHub did not say.
    pub(crate) can_push: Option<bool>,
    until: Timestamp,
}

#[derive(Serialize)]
struct Claims {
    iat: i64,
    exp: i64,
    iss: String,
}

#[derive(Deserialize)]
struct Installation {
    id: Id,
    #[serde(default)]
    suspended_at: Option<String>,
    /// What the owner has granted.
    #[serde(default)]
    permissions: BTreeMap<String, String>,
}

/// The app, as GitHub describes it.
#[derive(Deserialize)]
struct Described {
    slug: String,
    #[serde(default)]
    permissions: Option<BTreeMap<String, String>>,
}

/// A user or an organization that has installed the app.
#[derive(Deserialize)]
struct Installed {
    #[serde(default)]
    account: Option<Owner>,
    #[serde(default)]
    suspended_at: Option<String>,
    /// What the owner has granted.
    #[serde(default)]
    permissions: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Owner {
    #[serde(default, alias = "slug")]
    login: String,
}

#[derive(Deserialize)]
struct Token {
    token: String,
    expires_at: Timestamp,
    /// What the token may do.
    #[serde(default)]
    permissions: Option<BTreeMap<String, String>>,
}

impl App {
    /// Reads the private key, in PEM format.
    pub(crate) fn new(app_id: u64, private_key: &SecretValue) -> Result<Self, ForgeError> {
        let key = EncodingKey::from_rsa_pem(private_key.0.trim().as_bytes()).map_err(|_| {
            ForgeError::Credential("the private key of the GitHub App is not an RSA key in PEM format".to_owned())
        })?;
        Ok(Self { app_id, key, tokens: Mutex::default() })
    }

    /// Returns a token of the app itself.
    pub(crate) fn authorization(&self, now: Timestamp) -> Result<Authorization, ForgeError> {
        let now = now.as_micros() / 1_000_000;
        let time = i64::try_from(APP_TOKEN_TIME.as_secs()).unwrap_or_default();
        // GitHub refuses a token from the future.
        let claims = Claims { iat: now - 60, exp: now + time, iss: self.app_id.to_string() };
        let signed = jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims, &self.key);
        let signed = signed.map_err(|error| ForgeError::Credential(format!("the app's key cannot sign: {error}")))?;
        Ok(Authorization::Bearer(SecretValue(signed)))
    }

    /// Returns the name of the app in URLs.
    pub(crate) async fn slug(&self, http: &Http) -> Result<String, ForgeError> {
        Ok(self.described(http).await?.slug)
    }

    async fn described(&self, http: &Http) -> Result<Described, ForgeError> {
        let authorization = self.authorization(http.clock.now())?;
        http.call(Some(&authorization), Method::GET, "/app", None).await?.ok()?.json()
    }

    /// Describes the app and its installations.
    pub(crate) async fn account(&self, http: &Http) -> Result<AppAccount, ForgeError> {
        let Described { slug, permissions } = self.described(http).await?;
        let authorization = self.authorization(http.clock.now())?;
        let path = "/app/installations?per_page=100";
        let installed: Vec<Installed> = http.list(Some(&authorization), path, |_| false).await?;
        let owners = |is_suspended: bool| {
            let them = installed.iter().filter(|one| one.suspended_at.is_some() == is_suspended);
            them.filter_map(|one| one.account.as_ref()).map(|owner| owner.login.clone()).collect()
        };
        // An installation without permissions is one that GitHub has not described.
        let described = installed.iter().filter(|one| one.suspended_at.is_none() && !one.permissions.is_empty());
        let granted_less = described
            .filter_map(|one| Some((one.account.as_ref()?.login.clone(), missing(&one.permissions))))
            .filter(|(_, missing)| !missing.is_empty())
            .collect();
        let missing = permissions.as_ref().map(missing).unwrap_or_default();
        let (installed_by, suspended_by) = (owners(false), owners(true));
        Ok(AppAccount { slug, missing, installed_by, granted_less, suspended_by })
    }

    /// Returns a token for one repository, which is valid for at least ten minutes.
    pub(crate) async fn token(&self, http: &Http, path: &RepositoryPath) -> Result<Granted, ForgeError> {
        let (key, now) = (path.as_str().to_lowercase(), http.clock.now());
        let known = self.tokens().get(&key).filter(|granted| granted.until > now + LEAST_VALIDITY).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let authorization = self.authorization(now)?;
        let (owner, name) = path.parts();
        let answer = http
            .call(Some(&authorization), Method::GET, &format!("/repos/{owner}/{name}/installation"), None)
            .await?
            .ok();
        let installation: Installation = match answer {
            Err(ForgeError::NotFound(text)) => {
                let text = format!(
                    "the GitHub App is not installed on {path}; install it with access to this repository: {text}"
                );
                return Err(ForgeError::NotFound(text));
            }
            answer => answer?.json()?,
        };
        if installation.suspended_at.is_some() {
            return Err(ForgeError::Denied(format!("the installation of the GitHub App for {owner} is suspended")));
        }
        // GitHub would refuse the token, and not say what is missing.
        let missing = missing(&installation.permissions);
        if !missing.is_empty() && !installation.permissions.is_empty() {
            let text = format!(
                "the installation of the GitHub App for {owner} lacks the permissions {}; accept the app's new \
                 permissions in the settings of the installation",
                missing.join(", ")
            );
            return Err(ForgeError::Denied(text));
        }
        // Without it, no commit that changes a workflow can be pushed. It is not in the manifest.
        let workflows = installation.permissions.get_key_value("workflows").map(|(name, level)| (&**name, &**level));
        let permissions: BTreeMap<_, _> = PERMISSIONS.into_iter().chain(workflows).collect();
        let body = json!({"repositories": [name], "permissions": permissions});
        let path = format!("/app/installations/{}/access_tokens", installation.id.0);
        let answer = http.call(Some(&authorization), Method::POST, &path, Some(&body)).await?;
        if answer.status == http::StatusCode::UNPROCESSABLE_ENTITY {
            let text = format!(
                "{}; accept the app's new permissions, and give it access to the repository, in the settings of the \
                 installation",
                answer.described()
            );
            return Err(ForgeError::Denied(text));
        }
        let Token { token, expires_at, permissions } = answer.ok()?.json()?;
        let can_push = permissions.map(|all| all.get("contents").is_some_and(|level| level == "write"));
        let granted = Granted { token: SecretValue(token), can_push, until: expires_at };
        self.tokens().insert(key, granted.clone());
        Ok(granted)
    }

    /// Returns a token for the repository with an ID, whose path is not known. An installation that has no access to it
    /// refuses the token.
    pub(crate) async fn token_by_id(&self, http: &Http, id: &str) -> Result<SecretValue, ForgeError> {
        let now = http.clock.now();
        let authorization = self.authorization(now)?;
        let missing = || ForgeError::NotFound("no installation of the GitHub App has access to it".to_owned());
        let id: u64 = id.parse().map_err(|_| missing())?;
        let path = "/app/installations?per_page=100";
        let installations: Vec<Installation> = http.list(Some(&authorization), path, |_| false).await?;
        let permissions: BTreeMap<_, _> = PERMISSIONS.into_iter().collect();
        for installation in installations.into_iter().filter(|one| one.suspended_at.is_none()) {
            let body = json!({"repository_ids": [id], "permissions": permissions});
            let path = format!("/app/installations/{}/access_tokens", installation.id.0);
            let answer = http.call(Some(&authorization), Method::POST, &path, Some(&body)).await?;
            if answer.status.is_success() {
                let Token { token, .. } = answer.json()?;
                return Ok(SecretValue(token));
            }
        }
        Err(missing())
    }

    fn tokens(&self) -> std::sync::MutexGuard<'_, HashMap<String, Granted>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the permissions that the service needs and that are not among those granted.
fn missing(granted: &BTreeMap<String, String>) -> Vec<String> {
    let is_missing = |(name, level): &&(&str, &str)| {
        let granted = granted.get(*name).map_or("", String::as_str);
        granted != "write" && granted != "admin" && granted != *level
    };
    PERMISSIONS.iter().filter(is_missing).map(|(name, level)| format!("{name}: {level}")).collect()
}
