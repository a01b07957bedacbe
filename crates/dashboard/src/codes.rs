//! Codes of second factors: the encrypted secret of an app, and its QR code.

use journeyman_core::decision::second_factor::Attempt;
use journeyman_core::ids::UserId;
use journeyman_core::user::User;
use journeyman_core::user::second_factor::TotpSecret;
use qrcode::{Color, EcLevel, QrCode};

use crate::failure::Failure;
use crate::{Shared, words};

/// Returns the purpose and the owner of an encrypted secret.
fn context(user: UserId) -> String {
    format!("second_factor/{user}")
}

/// Encrypts the secret of a user's app, for the store.
pub(crate) fn sealed(shared: &Shared, user: UserId, secret: &TotpSecret) -> Result<String, Failure> {
    let sealed = shared.services.seal.seal(&context(user), &secret.text());
    sealed.map_err(|error| Failure::Render(error.to_string()))
}

/// Returns an attempt of a user with a code; `None` if the user has no second factor.
///
/// # Errors
/// The secret cannot be decrypted: the database has the secrets of another master key, or is damaged.
pub(crate) fn attempt(shared: &Shared, user: &User, code: String) -> Result<Option<Attempt>, Failure> {
    let Some(factor) = &user.second_factor else { return Ok(None) };
    let text = shared.services.seal.open(&context(user.id), &factor.secret);
    let secret = text.as_deref().and_then(TotpSecret::parse);
    let secret = secret.ok_or_else(|| Failure::Render(format!("the second factor of {} cannot be read", user.id)))?;
    Ok(Some(Attempt { sealed: factor.secret.clone(), secret, code }))
}

/// Returns the text of the QR code, from which an app reads the secret.
pub(crate) fn uri(public_url: &str, name: &str, secret: &TotpSecret) -> String {
    let host = public_url.split("://").last().unwrap_or_default().split(['/', ':']).next().unwrap_or_default();
    let (issuer, account) = (words::in_query(&format!("Journeyman {host}")), words::in_query(name));
    let secret = secret.text();
    format!("otpauth://totp/{issuer}:{account}?secret={secret}&issuer={issuer}&algorithm=SHA1&digits=6&period=30")
}

/// A QR code, as the content of an SVG image.
pub(crate) struct Drawing {
    /// The width and the height of the image, in modules.
    pub(crate) size: usize,
    /// The outline of the dark modules, as the attribute `d` of a path.
    pub(crate) path: String,
}

/// The empty border that readers of QR codes need, in modules (ISO/IEC 18004).
const BORDER: usize = 4;

/// Draws a text as a QR code; `None` if the text is too long for one, as with a name of 100 characters that are not
/// ASCII.
pub(crate) fn drawing(text: &str) -> Option<Drawing> {
    let code = QrCode::with_error_correction_level(text, EcLevel::M).ok()?;
    let width = code.width();
    let dark = code.to_colors().into_iter().enumerate().filter(|(_, color)| *color == Color::Dark);
    let path = dark.map(|(at, _)| format!("M{} {}h1v1h-1z", at % width + BORDER, at / width + BORDER)).collect();
    Some(Drawing { size: width + 2 * BORDER, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_the_qr_code_is_one_that_apps_read() {
        let secret = TotpSecret::parse("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ").expect("a secret");
        let text = uri("https://jobs.example.com:8443", "ada+b@example.com", &secret);
        let expected = "otpauth://totp/Journeyman%20jobs.example.com:ada%2Bb%40example.com\
                        ?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Journeyman%20jobs.example.com\
                        &algorithm=SHA1&digits=6&period=30";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_qr_code_has_its_finder_patterns_inside_an_empty_border() {
        let drawing = drawing("otpauth://totp/x").expect("a short text");
        // Version 2 has 25 modules.
        assert_eq!(drawing.size, 33);
        for (x, y, is_dark) in [(4, 4, true), (28, 4, true), (4, 28, true), (5, 5, false), (6, 6, true), (3, 3, false)]
        {
            assert_eq!(drawing.path.contains(&format!("M{x} {y}h1")), is_dark, "{x} {y}");
        }
        assert!(super::drawing(&"x".repeat(5000)).is_none());
    }
}
