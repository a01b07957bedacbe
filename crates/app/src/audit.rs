//! The use cases about the audit log.

use std::collections::HashMap;

use journeyman_core::audit::{AuditFilter, AuditLine};
use journeyman_core::trust::Trust;
use serde::Serialize;

use crate::{Caller, Error, RefusalKind, UseCases, table};

/// The number of entries that an export reads at a time.
const AT_ONCE: usize = 500;

impl UseCases {
    /// Returns the selected entries of the audit log, newest first.
    ///
    /// # Errors
    /// The caller is not an administrator, or the store failed.
    pub async fn audit_log(&self, caller: &Caller, filter: AuditFilter) -> Result<Vec<AuditLine>, Error> {
        if !caller.is_administrator() {
            let text = "the audit log is about all projects; reading it requires a key for all projects";
            return Err(Error::refused(RefusalKind::NotAdministrator, text));
        }
        Ok(self.parts().store.find_audit(filter).await?)
    }

    /// Begins an export of all selected entries, newest first, whatever the limit of the filter is.
    ///
    /// # Errors
    /// The caller is not an administrator, or the store failed.
    pub async fn export_audit(
        &self,
        caller: Caller,
        filter: AuditFilter,
        format: AuditFormat,
    ) -> Result<AuditExport, Error> {
        let names = self.names().await?;
        let filter = AuditFilter { limit: AT_ONCE, ..filter };
        // The first part is read here, so that its error is an error of the request.
        let first = self.audit_log(&caller, filter.clone()).await?;
        Ok(AuditExport { cases: self.clone(), caller, filter, format, names, next: Some(first), has_head: false })
    }

    /// Returns the names of users, keys and trusts by their IDs, which entries of the audit log have.
    ///
    /// # Errors
    /// The store failed.
    pub async fn names(&self) -> Result<HashMap<String, String>, Error> {
        let store = &self.parts().store;
        let users = store.users().await?.into_iter().map(|user| (user.id.to_string(), user.name));
        let keys = store.keys().await?.into_iter().map(|key| (key.id.to_string(), key.name));
        let trusts: Vec<Trust> = store.resources(None).await?;
        let trusts = trusts.into_iter().map(|trust| (trust.id.to_string(), trust.settings.name));
        Ok(users.chain(keys).chain(trusts).collect())
    }
}

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditFormat {
    /// A table (RFC 4180). The first line has the names of the columns.
    Csv,
    /// A JSON object on each line.
    JsonLines,
}

/// An export that is under way.
pub struct AuditExport {
    cases: UseCases,
    caller: Caller,
    filter: AuditFilter,
    format: AuditFormat,
    names: HashMap<String, String>,
    /// The entries that were read and not written yet; `None` at the end.
    next: Option<Vec<AuditLine>>,
    /// `true` if the names of the columns were written.
    has_head: bool,
}

impl AuditExport {
    /// Returns the next lines; `None` at the end.
    ///
    /// # Errors
    /// The store failed, or an entry cannot be written.
    pub async fn part(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let Some(lines) = self.next.take() else { return Ok(None) };
        let last = lines.last().map(|line| line.number).filter(|_| lines.len() == AT_ONCE);
        let written = match self.format {
            AuditFormat::Csv => self.as_table(lines)?,
            AuditFormat::JsonLines => self.as_json(lines)?,
        };
        if let Some(last) = last {
            let rest = AuditFilter { before: Some(last), ..self.filter.clone() };
            self.next = Some(self.cases.audit_log(&self.caller, rest).await?);
        }
        Ok(Some(written))
    }

    fn as_table(&mut self, lines: Vec<AuditLine>) -> Result<Vec<u8>, Error> {
        let mut table = table::writer();
        let failed = |error: csv::Error| table::failed(&error);
        if !std::mem::replace(&mut self.has_head, true) {
            let columns = ["id", "at", "actor", "actorName", "action", "subject", "address"];
            table.write_record(columns).map_err(failed)?;
        }
        for line in lines {
            table.serialize(Record::of(line, &self.names).without_formulas()).map_err(failed)?;
        }
        table::finished(table)
    }

    fn as_json(&self, lines: Vec<AuditLine>) -> Result<Vec<u8>, Error> {
        let mut written = Vec::new();
        for line in lines {
            let record = serde_json::to_vec(&Record::of(line, &self.names));
            written.extend(record.map_err(|error| Error::Internal(error.to_string()))?);
            written.push(b'\n');
        }
        Ok(written)
    }
}

/// An entry of an export. The order of the fields is that of the columns.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    id: String,
    at: String,
    actor: String,
    actor_name: Option<String>,
    action: String,
    subject: String,
    address: Option<String>,
}

impl Record {
    fn of(line: AuditLine, names: &HashMap<String, String>) -> Self {
        let AuditLine { number, entry } = line;
        Self {
            id: number.to_string(),
            at: entry.at.to_string(),
            actor_name: names.get(&entry.actor).cloned(),
            actor: entry.actor,
            action: entry.action,
            subject: entry.subject,
            address: entry.address,
        }
    }

    /// Returns the entry for a table in which texts are not formulas: a name that was entered at a failed sign-in, and
    /// the name of a key, may be any text.
    fn without_formulas(mut self) -> Self {
        let texts = [Some(&mut self.actor), self.actor_name.as_mut(), Some(&mut self.subject)];
        texts.into_iter().flatten().for_each(table::no_formula);
        self
    }
}
