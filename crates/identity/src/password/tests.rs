use std::sync::atomic::{AtomicU8, Ordering};

use journeyman_core::time::Timestamp;
use uuid::Uuid;

use super::*;

/// Bytes that count.
#[derive(Default)]
struct Counting(AtomicU8);

impl IdGen for Counting {
    fn uuid(&self, _: Timestamp) -> Uuid {
        Uuid::nil()
    }

    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn passwords() -> Passwords {
    Passwords::new(Arc::new(Counting::default()))
}

#[tokio::test]
async fn a_password_fits_its_hash_and_no_other_does() {
    let passwords = passwords();
    let phc = passwords.hash("fünf kleine Igel".to_owned()).await.unwrap();
    assert!(phc.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{phc}");

    let fits = async |password: &str| passwords.verify(password.to_owned(), Some(phc.clone())).await.unwrap();
    assert_eq!(fits("fünf kleine Igel").await, Verified { ok: true, outdated: false });
    // The same to the eye: u and a diaeresis of its own.
    assert_eq!(fits("fu\u{308}nf kleine Igel").await, Verified { ok: true, outdated: false });
    assert_eq!(fits("fünf kleine igel").await, Verified { ok: false, outdated: false });
}

#[tokio::test]
async fn two_hashes_of_one_password_differ() {
    let passwords = passwords();
    let first = passwords.hash("the same password".to_owned()).await.unwrap();
    let second = passwords.hash("the same password".to_owned()).await.unwrap();
    assert_ne!(first, second);
}

#[tokio::test]
async fn an_unknown_user_has_no_password_at_the_same_cost() {
    let passwords = passwords();
    let verified = passwords.verify("anything at all".to_owned(), None).await;
    assert_eq!(verified, Ok(Verified { ok: false, outdated: false }));
    // What it was verified against costs what a real hash does.
    let dummy = PasswordHash::new(&passwords.dummy).unwrap();
    let cost = Params::try_from(&dummy).unwrap();
    assert_eq!((cost.m_cost(), cost.t_cost(), cost.p_cost()), (MEMORY_KIB, PASSES, LANES));
    assert_eq!(verify("anything at all", &passwords.dummy), Ok(Verified { ok: false, outdated: false }));
}

#[tokio::test]
async fn a_hash_of_other_parameters_is_outdated() {
    let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::new(64, 1, 1, None).unwrap());
    let old: PasswordHash = argon.hash_password_with_salt(b"an old password", &[7; SALT_BYTES]).unwrap();
    let verified = passwords().verify("an old password".to_owned(), Some(old.to_string())).await;
    assert_eq!(verified, Ok(Verified { ok: true, outdated: true }));
}

#[tokio::test]
async fn what_is_no_hash_is_said_to_be_none() {
    let passwords = passwords();
    for stored in
        ["", "secret", "$argon2id", "$2b$10$abcdefghijklmnopqrstuv", "$argon2id$v=19$m=1,t=1,p=1$c2FsdHNhbHQ$aGFzaA"]
    {
        let verified = passwords.verify("any".to_owned(), Some(stored.to_owned())).await;
        assert_eq!(verified, Err(PasswordError::Stored), "{stored}");
    }
}
