//! The last step of the creation of a GitHub App from a manifest.

use http::Method;
use journeyman_core::code_host::manifest::CreatedApp;
use journeyman_core::ports::ForgeError;
use journeyman_core::secret::SecretValue;
use serde::Deserialize;

use crate::http::{Http, encoded};
use crate::json::Id;

/// The app with its secrets. GitHub tells them once.
#[derive(Deserialize)]
struct Converted {
    id: Id,
    slug: String,
    pem: String,
    #[serde(default)]
    webhook_secret: Option<String>,
}

/// Exchanges the code that GitHub has given to the browser for the app.
///
/// # Errors
/// The code is not valid, or GitHub cannot be reached. After an unclear error, the code may be used up.
pub(crate) async fn created_app(http: &Http, code: &str) -> Result<CreatedApp, ForgeError> {
    let path = format!("/app-manifests/{}/conversions", encoded(code));
    let converted: Converted = match http.call(None, Method::POST, &path, None).await?.ok() {
        Err(ForgeError::NotFound(_)) => {
            let text = "GitHub does not know the code; it is valid once, for an hour. Create the app again, and delete \
                        one that was created already";
            return Err(ForgeError::NotFound(text.to_owned()));
        }
        answer => answer?.json()?,
    };
    let app_id = converted.id.0.parse();
    Ok(CreatedApp {
        app_id: app_id.map_err(|_| ForgeError::Unclear("GitHub names no ID of the app".to_owned()))?,
        slug: converted.slug,
        private_key: SecretValue(converted.pem),
        webhook_secret: converted.webhook_secret.filter(|secret| !secret.is_empty()).map(SecretValue),
    })
}
