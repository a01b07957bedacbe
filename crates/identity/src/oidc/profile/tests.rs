use serde_json::json;

use super::*;

fn profile(claims: Value) -> Profile {
    Profile::new(serde_json::from_value(claims).unwrap()).ok().unwrap()
}

#[test]
fn only_true_verifies_an_address() {
    for (claim, verified) in [
        (json!(true), true),
        (json!("true"), true),
        (json!(false), false),
        (json!("false"), false),
        (json!(null), false),
    ] {
        let claims = json!({"sub": "ada", "email": "ada@example.com", "email_verified": claim});
        assert_eq!(profile(claims).email_verified, verified, "{claim}");
    }
    assert!(!profile(json!({"sub": "ada", "email": "ada@example.com"})).email_verified);
    for claim in [json!("yes"), json!(1), json!(["true"])] {
        let claims = json!({"sub": "ada", "email_verified": claim});
        assert!(serde_json::from_value::<PersonClaims>(claims).is_err(), "{claim}");
    }
}

#[test]
fn the_name_is_that_of_the_person_or_of_the_account() {
    let name = |claims: Value| profile(claims).name;
    assert_eq!(name(json!({"sub": "a", "name": "Ada\n L.", "preferred_username": "ada"})).as_deref(), Some("Ada L."));
    assert_eq!(name(json!({"sub": "a", "name": null, "preferred_username": "ada"})).as_deref(), Some("ada"));
    assert_eq!(name(json!({"sub": "a"})), None);
}

#[test]
fn subjects_that_identify_nobody_are_refused() {
    for subject in [String::new(), "a\n".to_owned(), "a".repeat(256)] {
        let claims = serde_json::from_value(json!({"sub": subject})).unwrap();
        assert!(Profile::new(claims).is_err(), "{subject:?}");
    }
    assert_eq!(profile(json!({"sub": "a".repeat(255)})).subject.len(), 255);
}

#[test]
fn user_info_replaces_the_address_and_adds_the_name() {
    let more = |claims: Value| serde_json::from_value::<PersonClaims>(claims).unwrap();
    let info = json!({"sub": "a", "email": "ada@example.com", "email_verified": true, "name": "Ada"});
    let both = profile(json!({"sub": "a"})).with(more(info.clone()));
    assert_eq!((both.email.as_deref(), both.email_verified), (Some("ada@example.com"), true));
    assert_eq!(both.name.as_deref(), Some("Ada"));
    assert_eq!(profile(json!({"sub": "a", "name": "Countess"})).with(more(info)).name.as_deref(), Some("Countess"));
    let without = profile(json!({"sub": "a", "email_verified": true})).with(more(json!({"sub": "a", "email": "ada"})));
    assert_eq!((without.email, without.email_verified), (None, false));
}
