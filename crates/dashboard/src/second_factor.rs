//! The obligation to have a second factor, and the pages that are open without it.

use journeyman_core::user::User;

use crate::Shared;

/// The path of the set-up, to which users are led who must have a second factor.
pub(crate) const SETUP: &str = "/account/second-factor";

/// The path of the page that adds a passkey.
pub(crate) const PASSKEYS: &str = "/account/passkeys";

/// Returns true if the server requires a second factor of this user, who has none. A user without a password signs in
/// at the provider, which has its own second factors.
pub(crate) fn is_missing(shared: &Shared, user: &User) -> bool {
    shared.settings.second_factor.concerns(user.role) && user.password.is_some() && !user.has_second_factor()
}

/// Returns true if a page is open to users whose second factor is missing: the set-up, and the page with the new codes.
pub(crate) fn is_for_setup(path: &str) -> bool {
    path == SETUP
        || path == PASSKEYS
        || path == "/confirm"
        || path.starts_with("/confirm/")
        || path.starts_with("/secrets/")
}
