//! `journeyman doctor`: checks the requirements of the service, and prints the remedies for those that are not met.
//!
//! Invariant: the checks change nothing. Their own files are in a folder that is removed at the end.

use std::cmp::Reverse;
use std::fs::Permissions;
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _};
use journeyman_app::Caller;
use journeyman_core::agent::AgentSpec;
use journeyman_core::finding::{Finding, Health};
use journeyman_core::hosted_storage::{HostedStorage, RECORD, StorageRecord};
use journeyman_core::ports::{SealedKind, Store};
use journeyman_core::project::Project;
use journeyman_core::time::Clock;
use journeyman_core::worker::Guarantee;
use journeyman_forge::check_code_host;
use journeyman_store::{PostgresOpenError, SqliteStore};
use journeyman_worker::ContainmentCheck;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use tempfile::TempDir;

use super::paint::{ColorWhen, Paint};
use super::store::{StoreArgs, block_on, print_json, print_lines};
use super::words::counted;
use crate::config::{Database, Settings};
use crate::system::Machine;
use crate::{app, scope};

/// The first version of git that reads settings from `GIT_CONFIG_COUNT`. The service depends on them to override unsafe
/// settings of repositories.
const OLDEST_GIT: (u32, u32) = (2, 31);

/// The first version of git that packs repositories in the way of the service (`git repack --cruft`).
const PACKING_GIT: (u32, u32) = (2, 37);

/// The free disk space, in bytes, below which a warning is printed.
const LITTLE_SPACE: u64 = 1 << 30;

/// The number of the largest repositories that are named.
const LARGEST: usize = 3;

/// The maximum number of repositories that are tested at the same time.
const CONCURRENT_TESTS: usize = 8;

/// The beginning of the names of the folders of checks without a data directory.
const SCRATCH: &str = "journeyman-doctor-";

/// The beginning of the names of the checks of the sandbox, before the name of the back end and the guarantee.
const SANDBOX: &str = "sandbox ";

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// List the checks that passed too
    #[arg(short, long, help_heading = "Output")]
    verbose: bool,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Runs the checks. The exit code is 1 if a check fails.
pub(crate) fn run(arguments: DoctorArgs, color: ColorWhen) -> anyhow::Result<ExitCode> {
    let verbose = arguments.verbose;
    let settings = arguments.store.settings()?;
    // `serve` does the same, so the checks have the same results as in the service.
    scope::enter(&settings)?;
    let findings = block_on(async { Ok(examine(&settings).await) })?;
    let findings: Vec<Finding> = findings.into_iter().map(Finding::with_time_in_text).collect();
    if arguments.json {
        print_json(&findings)?;
    } else {
        print_lines(&report(&findings, verbose, Paint::for_stdout(color)))?;
    }
    let failed = findings.iter().filter(|finding| finding.health == Health::Failure).count();
    if failed == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(std::io::stderr(), "{failed} of {} checks failed", findings.len())?;
    Ok(ExitCode::FAILURE)
}

async fn examine(settings: &Settings) -> Vec<Finding> {
    let mut findings = vec![data_dir(&settings.data_dir)];
    let usable = findings[0].health != Health::Failure;
    let scratch =
        if usable { scratch(settings, "doctor") } else { Err(io::Error::other("there is no data directory")) };
    if let Ok(scratch) = &scratch {
        let checked = unchanging(settings, scratch.path());
        findings.push(space(&settings.data_dir));
        findings.extend(repositories(&settings.repositories));
        findings.push(master_key(&checked));
        findings.push(database(&checked, settings.auto_migrate).await);
        findings.extend(secrets(&checked).await);
        findings.push(git(&checked).await);
        findings.extend(signatures(&checked).await);
        findings.extend(code_hosts(&checked).await);
    } else if let Err(error) = &scratch
        && usable
    {
        findings.push(finding(
            "temporary files",
            Health::Failure,
            format!("the folder for the checks cannot be created: {error}"),
        ));
    }
    findings.push(address(settings));
    findings.extend(settings.agents.iter().map(|(id, agent)| program(id, agent, &settings.path)));
    if let Ok(scratch) = &scratch {
        findings.extend(sandbox(settings, scratch.path()).await);
    }
    findings
}

/// Creates a folder for the files of a command that tries a sandbox, which is removed when it is dropped. It is in the data directory, so that
/// the sandbox is tested on the same disk. If there is none, or the users of sandboxes cannot traverse it, the folder
/// is in the directory for temporary files. A service removes the folders in its data directory that killed commands
/// have left.
pub(super) fn scratch(settings: &Settings, command: &str) -> io::Result<TempDir> {
    let dir = &settings.data_dir;
    let scratch = if is_traversable(dir, settings.sandbox.users.first) {
        let name = format!("{command}.{}", std::process::id());
        tempfile::Builder::new().prefix(&name).rand_bytes(0).tempdir_in(dir)?
    } else {
        app::leftovers::remove_temporary(&std::env::temp_dir(), SCRATCH, Machine.now());
        tempfile::Builder::new().prefix(SCRATCH).tempdir()?
    };
    std::fs::set_permissions(scratch.path(), Permissions::from_mode(0o711))?;
    Ok(scratch)
}

/// Returns whether the users of sandboxes, whose group is `group`, can traverse a folder.
fn is_traversable(dir: &Path, group: u32) -> bool {
    let Ok(found) = dir.metadata() else { return false };
    let is_open = found.mode() & 0o001 != 0 || found.gid() == group && found.mode() & 0o010 != 0;
    found.is_dir() && (is_open || !rustix::process::geteuid().is_root())
}

/// Returns settings with which the checks change no files of the installation.
fn unchanging(settings: &Settings, scratch: &Path) -> Settings {
    let mut checked = settings.clone();
    checked.auto_migrate = false;
    checked.git_dir = scratch.join("git");
    if !settings.data_dir.exists() {
        checked.data_dir = scratch.to_owned();
    }
    if !settings.repositories.exists() {
        checked.repositories = scratch.join("repositories");
    }
    checked
}

/// Formats the findings: first the failures, then the warnings, and then what is in order, as one line unless `verbose`.
fn report(findings: &[Finding], verbose: bool, paint: Paint) -> Vec<String> {
    let of = |health: Health| findings.iter().filter(move |finding| finding.health == health);
    let wrong = joined(of(Health::Failure).chain(of(Health::Warning)));
    let wrong = wrong.iter().map(|finding| line(finding, paint));
    let passed: Vec<&Finding> = of(Health::Ok).collect();
    let folded = (!verbose && !passed.is_empty()).then(|| {
        let them = if passed.len() == 1 { "it" } else { "them" };
        paint.good(&format!("{} passed; --verbose lists {them}", counted(passed.len(), "check")))
    });
    let listed = passed.iter().filter(|_| verbose).map(|finding| line(finding, paint));
    wrong.chain(listed).chain(folded).collect()
}

/// Joins the findings about guarantees of the sandbox that have one cause: their health and text are the same. The check
/// of the joined finding names all guarantees.
fn joined<'a>(findings: impl Iterator<Item = &'a Finding>) -> Vec<Finding> {
    let mut joined: Vec<Finding> = Vec::new();
    for finding in findings {
        let guarantee = finding.check.strip_prefix(SANDBOX).and_then(|check| check.split_once(", "));
        let has_same_cause =
            |one: &Finding| one.check.starts_with(SANDBOX) && one.health == finding.health && one.text == finding.text;
        if let Some((_, guarantee)) = guarantee
            && let Some(first) = joined.iter_mut().find(|one| has_same_cause(one))
        {
            first.check.push_str(", ");
            first.check.push_str(guarantee);
        } else {
            joined.push(finding.clone());
        }
    }
    joined
}

/// Prints findings, one in each line.
pub(super) fn print_findings(findings: &[Finding], color: ColorWhen) -> std::io::Result<()> {
    let paint = Paint::for_stdout(color);
    let dated = findings.iter().cloned().map(Finding::with_time_in_text);
    print_lines(&dated.map(|finding| line(&finding, paint)).collect::<Vec<_>>())
}

fn line(finding: &Finding, paint: Paint) -> String {
    let mark = match finding.health {
        Health::Ok => paint.good("ok  "),
        Health::Warning => paint.warn("warn"),
        Health::Failure => paint.bad("FAIL"),
    };
    format!("{mark}  {}: {}", paint.heading(&finding.check), finding.text)
}

/// Tests the code hosts of the configuration, and, if there is a database, those of the database and the repositories of
/// all projects.
async fn code_hosts(settings: &Settings) -> Vec<Finding> {
    let named = |id: &str, found: Vec<Finding>| {
        let check = format!("code host {id}");
        found.into_iter().map(move |one| Finding { check: format!("{check}, {}", one.check), ..one })
    };
    let mut findings = Vec::new();
    let Some(store) = existing_store(settings).await else {
        for (host, secrets) in &settings.code_hosts {
            let found = check_code_host(host, secrets, &app::outbound(settings), Arc::new(Machine)).await;
            findings.extend(named(host.id.as_str(), found));
        }
        return findings;
    };
    match installed(settings, &store).await {
        Ok((hosts, projects)) => {
            for (id, found) in hosts {
                findings.extend(named(&id, found));
            }
            for (id, found) in projects {
                let check = |one: Finding| Finding { check: format!("project {id}, {}", one.check), ..one };
                findings.extend(found.into_iter().map(check));
            }
        }
        Err(error) => findings.push(finding("code hosts", Health::Failure, format!("{error:#}"))),
    }
    findings
}

/// Findings by the ID of their subject.
type FindingsOf = Vec<(String, Vec<Finding>)>;

/// Tests the code hosts and the repositories of an installation with a database.
async fn installed(settings: &Settings, store: &Arc<dyn Store>) -> anyhow::Result<(FindingsOf, FindingsOf)> {
    let (cases, caller) = (app::use_cases(settings, store)?, Caller::command_line());
    let mut hosts = Vec::new();
    for described in cases.code_hosts(&caller).await? {
        let id = described.host.id;
        hosts.push((id.to_string(), cases.check_code_host(&caller, &id).await?));
    }
    let projects = cases.projects(&caller).await?;
    let remote = projects.iter().filter(|project| !project.repository.starts_with("local:"));
    let check = |project: &Project| {
        let (cases, caller, id) = (cases.clone(), caller.clone(), project.id.clone());
        async move { cases.check_project(&caller, &id).await.map(|found| (id.to_string(), found)) }
    };
    let tests: Vec<_> = remote.map(check).collect();
    let found = futures::stream::iter(tests).buffered(CONCURRENT_TESTS).try_collect().await?;
    Ok((hosts, found))
}

/// Opens the database if there is one with the current schema. The check of the database reports other states.
async fn existing_store(settings: &Settings) -> Option<Arc<dyn Store>> {
    let has_key = app::existing_master_key(settings).is_ok_and(|key| key.is_some());
    let is_current = match &settings.database {
        Database::Sqlite(path) => path.exists() && SqliteStore::needs_migration(path).is_ok_and(|is_old| !is_old),
        Database::Postgres(_) => true,
    };
    if has_key && is_current { app::open_store(settings).await.ok() } else { None }
}

/// Tests the sandbox with files in `folder`.
async fn sandbox(settings: &Settings, folder: &Path) -> Vec<Finding> {
    let sandbox = match app::sandbox(settings, app::SandboxUser::Check(folder)) {
        Ok(sandbox) => sandbox,
        Err(error) => return vec![finding("sandbox", Health::Failure, format!("{error:#}"))],
    };
    let found = ContainmentCheck::new(sandbox, app::given_up(settings)).containment().await;
    let missing: Vec<&str> = found.missing().map(|guarantee| guarantee.name).collect();
    let judge = |guarantee: &Guarantee| match guarantee.holds {
        true => Health::Ok,
        false if missing.contains(&guarantee.name) => Health::Failure,
        false => Health::Warning,
    };
    let check = |guarantee: &Guarantee| format!("{SANDBOX}{}, {}", found.sandbox, guarantee.name);
    found.guarantees.iter().map(|one| finding(&check(one), judge(one), one.note.clone())).collect()
}

fn finding(check: &str, health: Health, text: impl Into<String>) -> Finding {
    Finding::new(check, health, text)
}

fn data_dir(dir: &Path) -> Finding {
    let check = "data directory";
    let shown = dir.display();
    let other = "choose another directory with --data-dir";
    let failure = |text: String| finding(check, Health::Failure, text);
    match dir.metadata() {
        Ok(found) if !found.is_dir() => failure(format!("{shown} is not a directory; {other}")),
        Ok(_) => match can_write(dir) {
            Ok(()) => finding(check, Health::Ok, format!("{shown} can be written")),
            Err(error) => failure(format!("{shown} cannot be written ({error}); change its owner, or {other}")),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = existing(dir);
            match can_write(parent) {
                Ok(()) => finding(check, Health::Ok, format!("{shown} does not exist; `journeyman serve` creates it")),
                Err(error) => {
                    let parent = parent.display();
                    failure(format!("{shown} does not exist, and {parent} cannot be written ({error}); {other}"))
                }
            }
        }
        Err(error) => failure(format!("{shown}: {error}; {other}")),
    }
}

/// Returns the path itself, or the nearest folder above it that exists.
fn existing(path: &Path) -> &Path {
    path.ancestors().find(|folder| folder.exists()).unwrap_or(path)
}

/// Returns whether files can be created in a folder.
fn can_write(dir: &Path) -> rustix::io::Result<()> {
    accessat(CWD, dir, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
}

fn space(dir: &Path) -> Finding {
    let check = "disk space";
    match rustix::fs::statvfs(existing(dir)) {
        Ok(disk) => {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let (health, more) =
                if free < LITTLE_SPACE { (Health::Warning, "; workspaces may need more") } else { (Health::Ok, "") };
            finding(check, health, format!("{} MiB are free{more}", free >> 20))
        }
        Err(error) => finding(check, Health::Warning, format!("the free space could not be determined: {error}")),
    }
}

/// Reports the space that the repositories of the built-in code host take, by project of the largest ones; nothing if
/// there are none.
fn repositories(folder: &Path) -> Option<Finding> {
    let check = "repositories";
    let names = match journeyman_forge::repository_names(folder) {
        Ok(names) if names.is_empty() => return None,
        Ok(names) => names,
        Err(error) => return Some(finding(check, Health::Warning, format!("they cannot be listed: {error}"))),
    };
    let record = |name: &String| {
        let text = std::fs::read_to_string(folder.join(format!("{name}.git")).join(RECORD)).ok()?;
        Some((name.clone(), StorageRecord::read(&text)?.storage))
    };
    let mut measured: Vec<(String, HostedStorage)> = names.iter().filter_map(record).collect();
    measured.sort_by_key(|(_, storage)| Reverse(storage.git_bytes.saturating_add(storage.lfs_bytes)));
    let mut all = HostedStorage::default();
    measured.iter().for_each(|(_, storage)| all += *storage);
    let mebibytes = |storage: &HostedStorage| (storage.git_bytes >> 20, storage.lfs_bytes >> 20);
    let (git, lfs) = mebibytes(&all);
    let mut text = format!("{} on the built-in code host: {git} MiB, and {lfs} MiB in Git LFS", names.len());
    if measured.len() < names.len() {
        text.push_str(&format!("; {} not measured yet", names.len() - measured.len()));
    }
    for (name, storage) in measured.iter().take(LARGEST) {
        let (git, lfs) = mebibytes(storage);
        text.push_str(&format!("; local:{name} {git} MiB and {lfs} MiB"));
    }
    Some(finding(check, Health::Ok, text))
}

fn master_key(settings: &Settings) -> Finding {
    let check = "master key";
    let path = settings.master_key_file.display();
    if let Err(error) = app::other_master_keys(settings) {
        return finding(check, Health::Failure, format!("{error:#}"));
    }
    match app::existing_master_key(settings) {
        Ok(Some(_)) if settings.master_key.is_some() => finding(check, Health::Ok, "from JOURNEYMAN_MASTER_KEY"),
        Ok(Some(_)) => finding(check, Health::Ok, format!("{path} is private")),
        Ok(None) if matches!(&settings.database, Database::Sqlite(database) if database.exists()) => {
            let text = format!(
                "{path} is missing, and only this key decrypts the secrets in the database; restore the file from your \
                 copy before you start the service, which would create another key"
            );
            finding(check, Health::Failure, text)
        }
        Ok(None) => finding(check, Health::Ok, format!("{path} does not exist; `journeyman serve` creates it")),
        Err(error) => finding(check, Health::Failure, format!("{error:#}")),
    }
}

/// Checks the database. `migrates` is true if the next start updates the schema.
async fn database(settings: &Settings, migrates: bool) -> Finding {
    let check = "database";
    let database = &settings.database;
    let key = app::existing_master_key(settings);
    if key.is_err() {
        return finding(check, Health::Failure, "not checked, because it needs the master key");
    }
    let older = || format!("{database} answers; the next start brings its schema up to date");
    if let Database::Sqlite(path) = database {
        if !path.exists() {
            return finding(check, Health::Ok, format!("{database} does not exist; `journeyman serve` creates it"));
        }
        match SqliteStore::needs_migration(path) {
            Ok(true) => return finding(check, Health::Ok, older()),
            Ok(false) => {}
            Err(error) => return finding(check, Health::Failure, error.to_string()),
        }
    }
    if matches!(key, Ok(None)) {
        return finding(check, Health::Failure, "not checked, because it needs the master key");
    }
    match app::open_store(settings).await {
        Err(error) if migrates && is_older(&error) => finding(check, Health::Ok, older()),
        Ok(store) => match store.ready().await {
            Ok(()) => finding(check, Health::Ok, format!("{database} answers")),
            Err(error) => finding(check, Health::Failure, format!("{database}: {error}")),
        },
        Err(error) => finding(check, Health::Failure, format!("{error:#}")),
    }
}

/// Checks that a configured master key decrypts each stored secret, if there is a database that can be read.
async fn secrets(settings: &Settings) -> Option<Finding> {
    let check = "stored secrets";
    let store = existing_store(settings).await?;
    let census = match store.sealed(SealedKind::ALL.to_vec()).await {
        Ok(census) => census,
        Err(error) => return Some(finding(check, Health::Failure, error.to_string())),
    };
    let (unreadable, others) = (census.unreadable(), census.with_other_keys());
    if unreadable > 0 {
        let rows: Vec<String> = census.unreadable.iter().map(ToString::to_string).collect();
        let text = format!(
            "no configured master key decrypts {}: {}; add the missing key to other-master-key-files, or set these \
             secrets again",
            counted(usize::try_from(unreadable).unwrap_or(usize::MAX), "stored secret"),
            rows.join(", ")
        );
        return Some(finding(check, Health::Failure, text));
    }
    if others > 0 || census.required.as_ref() != Some(&census.current) {
        let text = format!(
            "{} need another master key than the current one ({}); `journeyman key-encryption rotate` encrypts them again",
            counted(usize::try_from(others).unwrap_or(usize::MAX), "stored secret"),
            census.current
        );
        return Some(finding(check, Health::Warning, text));
    }
    let unused = match census.others.as_slice() {
        [] => String::new(),
        ids => format!("; no stored secret needs the other keys ({})", ids.join(", ")),
    };
    Some(finding(check, Health::Ok, format!("the master key {} decrypts all of them{unused}", census.current)))
}

fn is_older(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(PostgresOpenError::Older { .. }))
}

async fn git(settings: &Settings) -> Finding {
    let check = "git";
    let remedy = "install git 2.31 or later (Debian: apt-get install git), or set its path with --git";
    let git = match app::git(settings) {
        Ok(git) => git,
        Err(error) => return finding(check, Health::Failure, format!("{error:#}")),
    };
    let version = match git.command(["version"]).run().await.and_then(journeyman_git::Output::text) {
        Ok(version) => version.trim().to_owned(),
        Err(error) => return finding(check, Health::Failure, format!("{error}; {remedy}")),
    };
    if git_version(&version).is_none_or(|found| found < OLDEST_GIT) {
        return finding(check, Health::Failure, format!("{version} is too old; {remedy}"));
    }
    // The service reads agents' objects with a memory limit.
    if let Err(error) = git.command(["version"]).memory_bytes(1 << 30).run().await {
        let text = format!("git does not run with a memory limit ({error}); Debian: apt-get install util-linux");
        return finding(check, Health::Failure, text);
    }
    let programs = git.command(["--exec-path"]).run().await.and_then(journeyman_git::Output::text);
    let backend = programs.map(|dir| Path::new(dir.trim()).join("git-http-backend"));
    match backend {
        Ok(backend) if backend.exists() => of_version(check, version),
        _ => {
            let text =
                format!("{version} has no http-backend: repositories of the built-in code host cannot be cloned");
            finding(check, Health::Warning, text)
        }
    }
}

/// Returns the finding for a version of git that the service can use.
fn of_version(check: &'static str, version: String) -> Finding {
    if git_version(&version).is_some_and(|found| found >= PACKING_GIT) {
        return finding(check, Health::Ok, version);
    }
    let text = format!(
        "{version} works, but the service cannot pack its repositories with it, so their files become more with each \
         turn; install git 2.37 or later"
    );
    finding(check, Health::Warning, text)
}

/// Checks the key that signs commits, if there is one.
async fn signatures(settings: &Settings) -> Option<Finding> {
    let check = "signatures of commits";
    match app::signer(settings).await {
        Ok(signer) => signer.map(|signer| {
            let text = format!("the public key is: {}", signer.public_key());
            finding(check, Health::Ok, text)
        }),
        Err(error) => Some(finding(check, Health::Failure, format!("{error:#}"))),
    }
}

/// Parses the output of `git version`: `git version 2.39.5 (Apple Git-154)` is (2, 39).
fn git_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix("git version ")?.split(['.', ' ', '-']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn address(settings: &Settings) -> Finding {
    let check = "address";
    match TcpListener::bind(settings.listen) {
        Ok(_) => finding(check, Health::Ok, format!("{} is free", settings.listen)),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let text = format!("{} is in use; if not by the service, choose another with --listen", settings.listen);
            finding(check, Health::Warning, text)
        }
        Err(error) => {
            let text = format!("cannot listen on {} ({error}); choose another address with --listen", settings.listen);
            finding(check, Health::Failure, text)
        }
    }
}

fn program(id: &str, agent: &AgentSpec, path: &str) -> Finding {
    let check = format!("agent {id}");
    let name = agent.command.first().cloned().unwrap_or_default();
    let found = if name.contains('/') {
        Some(PathBuf::from(&name)).filter(|program| program.exists())
    } else {
        path.split(':').map(|dir| Path::new(dir).join(&name)).find(|program| program.exists())
    };
    match found {
        Some(program) => finding(&check, Health::Ok, program.display().to_string()),
        None if agent.install.is_some() => {
            let text = format!("not installed; to use it, run: journeyman agent install {id}");
            finding(&check, Health::Ok, text)
        }
        None => {
            let text =
                format!("{name} is not in the search path ({path}); install it, or set its full path in [agents.{id}]");
            finding(&check, Health::Failure, text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_comes_first_and_what_is_in_order_is_folded() {
        let findings = [
            finding("a", Health::Ok, "fine"),
            finding("b", Health::Warning, "little"),
            finding("c", Health::Failure, "missing"),
            finding("d", Health::Ok, "fine"),
        ];
        let wrong = ["FAIL  c: missing", "warn  b: little"];
        assert_eq!(
            report(&findings, false, Paint::OFF),
            [&wrong[..], &["2 checks passed; --verbose lists them"]].concat()
        );
        assert_eq!(report(&findings, true, Paint::OFF), [&wrong[..], &["ok    a: fine", "ok    d: fine"]].concat());
        assert_eq!(report(&findings[..1], false, Paint::OFF), ["1 check passed; --verbose lists it"]);
        assert_eq!(report(&findings[2..3], false, Paint::OFF), ["FAIL  c: missing"]);
        let colored = report(&findings, false, Paint::ON);
        assert!(colored[0].starts_with("\u{1b}[31mFAIL\u{1b}[0m  "), "{colored:?}");
    }

    #[test]
    fn guarantees_of_the_sandbox_with_one_cause_are_one_line() {
        let findings = [
            finding("sandbox container, files", Health::Failure, "no engine"),
            finding("a", Health::Failure, "no engine"),
            finding("sandbox container, network", Health::Failure, "no engine"),
            finding("sandbox container, cpu", Health::Failure, "another cause"),
            finding("sandbox container, memory", Health::Warning, "no engine"),
        ];
        let lines = [
            "FAIL  sandbox container, files, network: no engine",
            "FAIL  a: no engine",
            "FAIL  sandbox container, cpu: another cause",
            "warn  sandbox container, memory: no engine",
        ];
        assert_eq!(report(&findings, false, Paint::OFF), lines);
    }

    #[test]
    fn a_missing_directory_is_not_created_and_one_that_cannot_be_created_is_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("a/b");
        let found = data_dir(&missing);
        assert_eq!((found.health, missing.exists(), existing(&missing)), (Health::Ok, false, dir.path()));
        assert!(found.text.contains("does not exist; `journeyman serve` creates it"), "{}", found.text);
        assert_eq!(data_dir(dir.path()).text, format!("{} can be written", dir.path().display()));
        std::fs::write(dir.path().join("file"), "").unwrap();
        for (name, text) in [("file", "is not a directory"), ("file/below", "choose another directory")] {
            let found = data_dir(&dir.path().join(name));
            assert!(found.health == Health::Failure && found.text.contains(text), "{name}: {}", found.text);
        }
        // Root can write everywhere.
        if !rustix::process::geteuid().is_root() {
            std::fs::set_permissions(dir.path(), Permissions::from_mode(0o555)).unwrap();
            let found = data_dir(&missing);
            assert!(found.health == Health::Failure && found.text.contains("cannot be written"), "{}", found.text);
        }
    }

    #[test]
    fn a_git_that_cannot_pack_is_a_warning() {
        for (version, health) in [("git version 2.36.1", Health::Warning), ("git version 2.37.0", Health::Ok)] {
            let found = of_version("git", version.to_owned());
            assert!(found.health == health && found.text.contains(version), "{}", found.text);
        }
    }

    #[test]
    fn the_version_of_git_is_parsed() {
        for (text, version) in [
            ("git version 2.39.5", Some((2, 39))),
            ("git version 2.39.5 (Apple Git-154)", Some((2, 39))),
            ("git version 2.50-rc1", Some((2, 50))),
            ("hub 1.0", None),
        ] {
            assert_eq!(git_version(text), version, "{text}");
        }
    }
}
