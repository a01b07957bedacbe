//! Tests of codes, with the examples of RFC 6238.

use super::*;

/// The secret of the examples in RFC 6238, appendix B.
fn secret() -> TotpSecret {
    TotpSecret(*b"12345678901234567890")
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::default() + Duration::from_secs(seconds)
}

fn factor() -> SecondFactor {
    let recovery = vec![TokenHash::of("aaaabbbbccccdddd"), TokenHash::of("eeeeffffgggghhhh")];
    SecondFactor { secret: "sealed".to_owned(), since: at(0), last_step: 0, recovery, failures: 0, failed_at: None }
}

#[test]
fn codes_are_those_of_the_standard() {
    for (seconds, eight_digits) in [
        (59, "94287082"),
        (1_111_111_109, "07081804"),
        (1_111_111_111, "14050471"),
        (1_234_567_890, "89005924"),
        (2_000_000_000, "69279037"),
        (20_000_000_000, "65353130"),
    ] {
        assert_eq!(secret().code(step(at(seconds))), eight_digits[2..], "{seconds}");
    }
}

#[test]
fn a_secret_has_one_form() {
    assert_eq!(secret().text(), "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
    assert_eq!(TotpSecret::parse(&secret().text()), Some(secret()));
    for bad in ["", "GEZDGNBV", "gezdgnbvgy3tqojqgezdgnbvgy3tqojq", "1EZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"] {
        assert_eq!(TotpSecret::parse(bad), None, "{bad}");
    }
    assert_eq!(format!("{:?}", secret()), "TotpSecret(…)");
    assert!(!format!("{:?}", factor()).contains("sealed"));
}

#[test]
fn a_code_is_accepted_one_step_early_or_late() {
    for (step_of_code, accepted) in [(98, false), (99, true), (100, true), (101, true), (102, false)] {
        let code = secret().code(step_of_code);
        let (after, outcome) = factor().check(&secret(), &code, at(100 * STEP_SECONDS));
        let expected = if accepted { Ok(Accepted::App) } else { Err(CodeRefusal::Wrong) };
        assert_eq!(outcome, expected, "{step_of_code}");
        assert_eq!(after.last_step, if accepted { step_of_code } else { 0 }, "{step_of_code}");
    }
}

#[test]
fn a_step_is_used_once_and_earlier_ones_are_no_longer_accepted() {
    let now = at(100 * STEP_SECONDS);
    let (used, outcome) = factor().check(&secret(), &secret().code(100), now);
    assert_eq!(outcome, Ok(Accepted::App));
    for step in [100, 99] {
        let (after, outcome) = used.check(&secret(), &secret().code(step), now);
        assert_eq!((outcome, after.failures), (Err(CodeRefusal::Used), 1), "{step}");
    }
    assert_eq!(used.check(&secret(), &secret().code(101), now).1, Ok(Accepted::App));
}

#[test]
fn a_code_may_be_typed_in_groups() {
    let code = secret().code(100);
    let grouped = format!(" {} {} ", &code[..3], &code[3..]);
    assert_eq!(factor().check(&secret(), &grouped, at(100 * STEP_SECONDS)).1, Ok(Accepted::App));
    assert_eq!(secret().step_of(&grouped, at(100 * STEP_SECONDS)), Some(100));
    assert_eq!(secret().step_of("", at(100 * STEP_SECONDS)), None);
}

#[test]
fn a_recovery_code_is_used_once() {
    let (used, outcome) = factor().check(&secret(), "AAAA-bbbb cccc-dddd", at(1));
    assert_eq!((outcome, used.recovery.len()), (Ok(Accepted::Recovery), 1));
    let (after, outcome) = used.check(&secret(), "aaaa-bbbb-cccc-dddd", at(1));
    assert_eq!((outcome, after.recovery.len()), (Err(CodeRefusal::Wrong), 1));
    for wrong in ["", "-", "aaaa", "12345", "1234567", "aaaabbbbccccdddde"] {
        assert_eq!(used.check(&secret(), wrong, at(1)).1, Err(CodeRefusal::Wrong), "{wrong}");
    }
}

#[test]
fn recovery_codes_are_different_and_match_their_hashes() {
    struct Counting(std::sync::atomic::AtomicU8);
    impl IdGen for Counting {
        fn uuid(&self, _: Timestamp) -> uuid::Uuid {
            uuid::Uuid::nil()
        }
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        }
    }
    let (codes, hashes) = new_recovery_codes(&Counting(0.into()));
    assert_eq!((codes.len(), hashes.len()), (RECOVERY_CODES, RECOVERY_CODES));
    assert!(codes.iter().all(|code| code.len() == 19 && code.split('-').all(|group| group.len() == 4)), "{codes:?}");
    let factor = SecondFactor { recovery: hashes, ..factor() };
    let mut left = factor;
    for code in &codes {
        let (after, outcome) = left.check(&secret(), code, at(1));
        assert_eq!(outcome, Ok(Accepted::Recovery), "{code}");
        left = after;
    }
    assert!(left.recovery.is_empty());
}

#[test]
fn too_many_wrong_codes_pause_all_codes() {
    let right = |seconds| secret().code(step(at(seconds)));
    let mut failed = factor();
    for number in 0..MAX_FAILURES {
        assert_eq!(failed.failures, number);
        failed = failed.check(&secret(), "000000x", at(1000)).0;
    }
    let (after, outcome) = failed.check(&secret(), &right(1000), at(1000));
    assert_eq!(outcome, Err(CodeRefusal::TooMany(PAUSE)));
    assert_eq!(after, failed, "attempts during the pause do not prolong it");
    let recovery = failed.check(&secret(), "aaaabbbbccccdddd", at(1001)).1;
    assert_eq!(recovery, Err(CodeRefusal::TooMany(PAUSE - Duration::from_secs(1))));
    let text = recovery.unwrap_err().to_string();
    assert!(text.contains("try again in 15 minutes"), "{text}");
    // After the pause there is one attempt.
    let over = 1000 + PAUSE.as_secs();
    let again = failed.check(&secret(), "000000x", at(over)).0;
    assert_eq!(again.check(&secret(), &right(over), at(over)).1, Err(CodeRefusal::TooMany(PAUSE)));
    let (reset, outcome) = failed.check(&secret(), &right(over), at(over));
    assert_eq!((outcome, reset.failures, reset.failed_at), (Ok(Accepted::App), 0, None));
}

#[test]
fn a_second_factor_is_required_of_some_or_all() {
    let concerned = |rule: RequiredOf| Role::ALL.map(|role| rule.concerns(role));
    assert_eq!(concerned(RequiredOf::Nobody), [false; 3]);
    assert_eq!(concerned(RequiredOf::Administrators), [true, false, false]);
    assert_eq!(concerned(RequiredOf::Everyone), [true; 3]);
}
