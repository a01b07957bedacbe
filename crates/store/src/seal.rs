//! The implementation of [`Seal`] with the master key.

use std::sync::Arc;

use journeyman_core::ports::{Seal, SealFailed};
use journeyman_core::time::IdGen;

use crate::vault::{MasterKeys, outside};

/// Encrypts texts with the current master key for others than the store, such as cookies, and decrypts them with each
/// configured key. The associated data has its own prefix, so that such a text cannot be used in place of a stored secret.
pub struct Sealer {
    keys: MasterKeys,
    ids: Arc<dyn IdGen>,
}

impl Sealer {
    /// Creates a sealer. `ids` generates the nonces.
    #[must_use]
    pub fn new(keys: impl Into<MasterKeys>, ids: Arc<dyn IdGen>) -> Self {
        Self { keys: keys.into(), ids }
    }
}

impl Seal for Sealer {
    fn seal(&self, context: &str, text: &str) -> Result<String, SealFailed> {
        let sealed = self.keys.seal_text(&outside(context), text, &*self.ids);
        sealed.map_err(|error| SealFailed(error.to_string()))
    }

    fn open(&self, context: &str, sealed: &str) -> Option<String> {
        self.keys.open_text(&outside(context), sealed).ok()
    }
}

#[cfg(test)]
mod tests {
    use journeyman_core::time::Timestamp;
    use uuid::Uuid;

    use super::*;
    use crate::vault::MasterKey;

    struct Fixed;

    impl IdGen for Fixed {
        fn uuid(&self, _: Timestamp) -> Uuid {
            Uuid::nil()
        }

        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(3);
        }
    }

    #[test]
    fn a_text_is_opened_only_with_its_key_and_context() {
        let sealer = |byte| Sealer::new(MasterKey::new([byte; 32]), Arc::new(Fixed));
        let sealed = sealer(7).seal("cookie/1", "hunter2 ü").unwrap();
        assert!(sealed.bytes().all(|byte| byte.is_ascii_hexdigit()), "{sealed}");
        assert_eq!(sealer(7).open("cookie/1", &sealed).as_deref(), Some("hunter2 ü"));
        assert_eq!(sealer(7).open("cookie/2", &sealed), None, "another context");
        assert_eq!(sealer(8).open("cookie/1", &sealed), None, "another key");
        for damaged in ["", "0", "zz", &sealed[2..], &sealed.replace('0', "1")] {
            assert_eq!(sealer(7).open("cookie/1", damaged), None, "{damaged}");
        }
    }
}
