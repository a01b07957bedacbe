//! Values of a project's secrets that were changed or removed.
//!
//! A job that began before may still print such a value: it can be in its workspace, in the home of its agent or in its
//! conversation. The row keeps the encrypted value of the secret as it was, so nothing is encrypted when it is retired.

use std::time::Duration;

use journeyman_core::ids::ProjectId;
use journeyman_core::ports::SealedKind;
use journeyman_core::secret::SecretValue;
use journeyman_core::time::{IdGen, Timestamp};

use crate::vault::{self, MasterKeys, retired_name, to_digits};

/// The time after its change for which a value may reach new jobs: their runs may have read it before the change was
/// stored, and the clocks of machines differ.
pub(crate) const SLACK: Duration = Duration::from_mins(10);

/// The time for which a retired value is kept at least: a run that has read it may not have stored its job yet.
pub(crate) const KEPT: Duration = Duration::from_hours(1);

/// The random bytes in the key of a row.
const KEY_BYTES: usize = 8;

/// Returns a new key for a retired value of a secret.
pub(crate) fn key(name: &str, ids: &dyn IdGen) -> String {
    let mut bytes = [0; KEY_BYTES];
    ids.fill(&mut bytes);
    format!("{name}/{}", to_digits(&bytes))
}

/// Returns the earliest time of a change whose values a job may have got that was created at `since`.
pub(crate) fn earliest(since: Timestamp) -> i64 {
    (since - SLACK).as_micros()
}

/// Returns whether a stored secret has this value, so that a change to it retires nothing.
pub(crate) fn is_same(
    keys: &MasterKeys,
    project: &ProjectId,
    name: &str,
    stored: &[u8],
    value: Option<&SecretValue>,
) -> bool {
    value.is_some_and(|value| keys.open(project, name, stored).is_ok_and(|known| known == *value))
}

/// Decrypts retired values. Those that no configured key decrypts are logged and left out: they must not stop every
/// run of the project until its last job is deleted.
pub(crate) fn open_all(
    keys: &MasterKeys,
    project: &ProjectId,
    sealed: Vec<(String, Vec<u8>)>,
) -> Vec<(String, SecretValue)> {
    let open = |(key, value): (String, Vec<u8>)| {
        let context = vault::context(SealedKind::RetiredSecret, project.as_str(), &key);
        let text = keys.open_at(&context, &value).map_err(|error| error.to_string());
        match text.and_then(|text| String::from_utf8(text).map_err(|error| error.to_string())) {
            Ok(text) => Some((retired_name(&key).to_owned(), SecretValue(text))),
            Err(error) => {
                tracing::error!(%project, row = %key, error, "an earlier value of a secret cannot be redacted");
                None
            }
        }
    };
    sealed.into_iter().filter_map(open).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MasterKey;

    #[test]
    fn a_value_that_cannot_be_decrypted_is_left_out() {
        let project: ProjectId = "shop".parse().unwrap();
        let seal = |byte: u8, text: &str| {
            let keys = MasterKeys::from(MasterKey::new([byte; 32]));
            keys.seal(&project, "TOKEN", &SecretValue(text.to_owned()), [1; 12]).unwrap()
        };
        let keys = MasterKeys::from(MasterKey::new([1; 32]));
        let stored = vec![("TOKEN/0a".to_owned(), seal(1, "one")), ("TOKEN/0b".to_owned(), seal(2, "two"))];
        let expected = vec![("TOKEN".to_owned(), SecretValue("one".to_owned()))];
        assert_eq!(open_all(&keys, &project, stored), expected);
        let value = SecretValue("one".to_owned());
        assert!(is_same(&keys, &project, "TOKEN", &seal(1, "one"), Some(&value)));
        for (stored, value) in [(seal(1, "two"), Some(&value)), (seal(1, "one"), None), (seal(2, "one"), Some(&value))]
        {
            assert!(!is_same(&keys, &project, "TOKEN", &stored, value));
        }
    }
}
