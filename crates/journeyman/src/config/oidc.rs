//! The settings of sign-in with an OpenID provider.

use std::path::PathBuf;

use anyhow::{Context, bail};
use journeyman_core::secret::SecretValue;
use journeyman_core::user::Role;
use journeyman_identity::oidc::OidcSettings;
use url::Url;

use super::layer::{Layer, OidcRole};

/// Returns the settings of the OpenID provider; `None` if the settings name no provider.
///
/// # Errors
/// A setting is missing or invalid; the error names it.
pub(super) fn provider(layer: &Layer) -> anyhow::Result<Option<OidcSettings>> {
    let Some(issuer) = &layer.oidc_issuer else {
        let others = layer.oidc_client_id.is_some() || layer.oidc_secret_file.is_some() || layer.oidc_domains.is_some();
        if others {
            bail!("oidc-issuer is missing: the other oidc settings have no effect without it");
        }
        return Ok(None);
    };
    let issuer = Url::parse(issuer).context("oidc-issuer must be the address of an OpenID provider")?;
    let name = issuer.host_str().unwrap_or_default().to_owned();
    let settings = OidcSettings {
        issuer,
        client_id: layer
            .oidc_client_id
            .clone()
            .context("oidc-client-id is missing; set it to the client ID of this server at the provider")?,
        client_secret: layer.oidc_secret_file.as_ref().map(secret).transpose()?,
        scopes: Vec::new(),
        allowed_domains: layer.oidc_domains.clone().unwrap_or_default(),
        default_role: match layer.oidc_role.unwrap_or_default() {
            OidcRole::Member => Role::Member,
            OidcRole::Viewer => Role::Viewer,
        },
        button_label: layer.oidc_label.clone().unwrap_or_else(|| format!("Sign in with {name}")),
    };
    Ok(Some(settings.checked()?))
}

fn secret(path: &PathBuf) -> anyhow::Result<SecretValue> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("oidc-secret-file: {} cannot be read", path.display()))?;
    Ok(SecretValue(text.trim().to_owned()))
}
