//! `journeyman key-encryption`: the master keys that the stored secrets need, and their rotation.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use journeyman_app::{Caller, Rotated};
use journeyman_core::ports::{SealedCensus, SealedKind};
use serde_json::{Value, json};

use super::store::{StoreArgs, block_on, print_json, print_lines};
use crate::app;

#[derive(Debug, Args)]
#[command(
    after_help = "The service can keep running. To replace the master key: 1. add the new key to other-master-key-files \
                  on all machines, and restart each; 2. exchange both keys, so that master-key-file is the new one, and \
                  restart each; 3. run `journeyman key-encryption rotate`; 4. when `status` exits with 0, remove the old \
                  key, and restart each. See docs/operations.md."
)]
pub(crate) struct KeyEncryptionArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Print JSON
    #[arg(long, global = true, help_heading = "Output")]
    json: bool,
    #[command(subcommand)]
    command: KeyEncryptionCommand,
}

#[derive(Debug, Subcommand)]
enum KeyEncryptionCommand {
    /// Count the stored secrets by the master keys that decrypt them, without changing anything
    ///
    /// The exit code is 0 if the current key decrypts all of them, and a service needs only this key to start; otherwise
    /// it is 1.
    Status,
    /// Encrypt all stored secrets with the current master key, in small steps
    ///
    /// An interrupted rotation is continued by running the command again. The exit code is 0 if afterward the current key
    /// decrypts all secrets; otherwise it is 1.
    Rotate,
}

/// Runs the command.
pub(crate) fn run(arguments: KeyEncryptionArgs) -> anyhow::Result<ExitCode> {
    let KeyEncryptionArgs { store, json, command } = arguments;
    let (done, census) = block_on(async {
        let (settings, store) = store.open().await?;
        let (cases, caller) = (app::use_cases(&settings, &store)?, Caller::command_line());
        Ok(match command {
            KeyEncryptionCommand::Status => (None, cases.sealed_values(&caller).await?),
            KeyEncryptionCommand::Rotate => {
                let Rotated { done, census } = cases.rotate_master_key(&caller).await?;
                (Some(done), census)
            }
        })
    })?;
    if json {
        print_json(&document(done.as_ref(), &census))?;
    } else {
        print_lines(&report(done.as_ref(), &census))?;
    }
    if census.is_complete() {
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(std::io::stderr(), "{}", problem(&census))?;
    Ok(ExitCode::FAILURE)
}

/// Returns the lines of the report.
fn report(done: Option<&BTreeMap<SealedKind, u64>>, census: &SealedCensus) -> Vec<String> {
    let mut lines = vec![format!("current master key: {}", census.current)];
    if !census.others.is_empty() {
        lines.push(format!("other master keys:  {}", census.others.join(", ")));
    }
    let required = census.required.as_deref().unwrap_or("a key that is not configured");
    lines.push(format!("a service needs to start: {required}"));
    for (kind, counts) in &census.counts {
        let encrypted = done.map(|done| format!("{} encrypted now, ", done.get(kind).copied().unwrap_or_default()));
        let others: String = counts.others.iter().map(|(id, count)| format!(", {count} with {id}")).collect();
        let unreadable = match counts.unreadable {
            0 => String::new(),
            count => format!(", {count} with no configured key"),
        };
        lines.push(format!(
            "{}: {}{} with the current key{others}{unreadable}",
            kind.name(),
            encrypted.unwrap_or_default(),
            counts.current
        ));
    }
    lines.extend(census.unreadable.iter().map(|row| format!("cannot be decrypted: {row}")));
    let named = u64::try_from(census.unreadable.len()).unwrap_or(u64::MAX);
    if census.unreadable() > named {
        lines.push(format!("cannot be decrypted: {} more", census.unreadable() - named));
    }
    lines
}

/// Returns what is wrong, and what to do about it.
fn problem(census: &SealedCensus) -> String {
    let mut texts = Vec::new();
    if census.unreadable() > 0 {
        texts.push(format!(
            "{} stored secrets are decrypted by no configured key; add the missing key to other-master-key-files, or set \
             these secrets again",
            census.unreadable()
        ));
    }
    if census.with_other_keys() > 0 {
        texts.push(format!(
            "{} stored secrets still need another key than {}; run `journeyman key-encryption rotate`, and make sure that \
             it is the current key on all machines",
            census.with_other_keys(),
            census.current
        ));
    } else if census.required.as_ref() != Some(&census.current) {
        texts.push("a service still needs another key to start; run `journeyman key-encryption rotate`".to_owned());
    }
    texts.join("\n")
}

fn document(done: Option<&BTreeMap<SealedKind, u64>>, census: &SealedCensus) -> Value {
    let kinds: Vec<Value> = census
        .counts
        .iter()
        .map(|(kind, counts)| {
            let mut one = json!({
                "table": kind.table(),
                "current": counts.current,
                "others": counts.others,
                "unreadable": counts.unreadable,
            });
            if let Some(done) = done {
                one["encrypted"] = json!(done.get(kind).copied().unwrap_or_default());
            }
            one
        })
        .collect();
    let rows: Vec<Value> = census
        .unreadable
        .iter()
        .map(|row| json!({"table": row.kind.table(), "owner": row.owner, "name": row.name}))
        .collect();
    json!({
        "currentKey": census.current,
        "otherKeys": census.others,
        "requiredKey": census.required,
        "complete": census.is_complete(),
        "values": kinds,
        "unreadable": rows,
    })
}

#[cfg(test)]
mod tests {
    use journeyman_core::ports::{SealedCounts, SealedRow};

    use super::*;

    fn census() -> SealedCensus {
        let counts = SealedCounts { current: 2, others: [("old".to_owned(), 3)].into(), unreadable: 21 };
        let row = SealedRow { kind: SealedKind::Answer, owner: String::new(), name: "key_1\nmine".to_owned() };
        SealedCensus {
            current: "new".to_owned(),
            others: vec!["old".to_owned()],
            required: Some("old".to_owned()),
            counts: [(SealedKind::Answer, counts)].into(),
            unreadable: vec![row; 20],
        }
    }

    #[test]
    fn the_report_has_the_keys_the_counts_and_the_rows_that_cannot_be_decrypted() {
        let lines = report(Some(&[(SealedKind::Answer, 5)].into()), &census());
        assert_eq!(
            lines[..5],
            [
                "current master key: new",
                "other master keys:  old",
                "a service needs to start: old",
                "answers to requests: 5 encrypted now, 2 with the current key, 3 with old, 21 with no configured key",
                "cannot be decrypted: idempotency_keys /key_1/mine",
            ]
        );
        assert_eq!(lines.last().map(String::as_str), Some("cannot be decrypted: 1 more"));
        let text = problem(&census());
        assert!(text.contains("21 stored secrets") && text.contains("3 stored secrets still need"), "{text}");
        assert_eq!(document(None, &census())["complete"], false);
    }

    #[test]
    fn a_rotation_that_lacks_only_its_last_step_is_reported() {
        let lacking = SealedCensus { counts: BTreeMap::new(), unreadable: Vec::new(), ..census() };
        assert!(!lacking.is_complete() && problem(&lacking).contains("another key to start"));
        let complete = SealedCensus { required: Some("new".to_owned()), ..lacking };
        assert!(complete.is_complete() && problem(&complete).is_empty());
    }
}
