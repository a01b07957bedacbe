use journeyman_testkit::World;

use super::*;

fn passwords() -> Passwords {
    Passwords::new(World::new())
}

#[tokio::test]
async fn only_the_same_password_matches_its_hash() {
    let passwords = passwords();
    let phc = passwords.hash("fünf kleine Igel".to_owned()).await.unwrap();
    assert!(phc.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{phc}");

    let verify = async |password: &str| passwords.verify(password.to_owned(), Some(phc.clone())).await.unwrap();
    assert_eq!(verify("fünf kleine Igel").await, Verified { ok: true, outdated: false });
    // The same visible text: u followed by a combining diaeresis.
    assert_eq!(verify("fu\u{308}nf kleine Igel").await, Verified { ok: true, outdated: false });
    assert_eq!(verify("fünf kleine igel").await, Verified { ok: false, outdated: false });
}

#[tokio::test]
async fn hashes_of_one_password_have_different_salts() {
    let passwords = passwords();
    let first = passwords.hash("the same password".to_owned()).await.unwrap();
    let second = passwords.hash("the same password".to_owned()).await.unwrap();
    assert_ne!(first, second);
}

#[tokio::test]
async fn verification_for_an_unknown_user_fails_at_the_same_cost() {
    let passwords = passwords();
    let verified = passwords.verify("anything at all".to_owned(), None).await;
    assert_eq!(verified, Ok(Verified { ok: false, outdated: false }));
    // The dummy hash has the cost parameters of a real one.
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
async fn an_invalid_stored_hash_is_an_error() {
    let passwords = passwords();
    for stored in
        ["", "secret", "$argon2id", "$2b$10$abcdefghijklmnopqrstuv", "$argon2id$v=19$m=1,t=1,p=1$c2FsdHNhbHQ$aGFzaA"]
    {
        let verified = passwords.verify("any".to_owned(), Some(stored.to_owned())).await;
        assert_eq!(verified, Err(PasswordError::Stored), "{stored}");
    }
}
