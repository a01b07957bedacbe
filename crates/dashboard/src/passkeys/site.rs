//! The site that passkeys are for.

/// The site that passkeys are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    /// The relying party ID: the host name of the public URL.
    pub(crate) id: String,
    /// The origin of the pages.
    pub(crate) origin: String,
}

/// Returns the site of a public URL.
///
/// # Errors
/// Browsers do not use passkeys there; the text says why, for people.
pub(crate) fn site(public_url: &str) -> Result<Site, &'static str> {
    let url = public_url.to_ascii_lowercase();
    let (scheme, rest) = url.split_once("://").unwrap_or(("", &url));
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.split(':').next().unwrap_or_default();
    if host.starts_with('[') || host.parse::<std::net::IpAddr>().is_ok() || host.is_empty() {
        return Err("Passkeys need a host name, and the public URL of this server has an IP address.");
    }
    let is_local = host == "localhost" || host.ends_with(".localhost");
    if scheme != "https" && !is_local {
        return Err("Passkeys need https, and the public URL of this server has http.");
    }
    // Browsers leave out the port that the scheme implies.
    let implied = if scheme == "https" { ":443" } else { ":80" };
    let shown = authority.strip_suffix(implied).unwrap_or(authority);
    Ok(Site { id: host.to_owned(), origin: format!("{scheme}://{shown}") })
}
