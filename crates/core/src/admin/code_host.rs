//! Decisions on the code hosts in the store.

use crate::admin::{AdminChange, AdminRefusal, AdminRow, AdminState, Precondition};
use crate::audit::AuditEntry;
use crate::code_host::{CodeHost, DefinedIn, HostSecretChanges, InvalidCodeHost};

/// Stores a new code host.
///
/// # Errors
/// A code host with this ID or this address exists.
pub fn create(
    state: &AdminState,
    host: CodeHost,
    secrets: HostSecretChanges,
    audit: AuditEntry,
) -> Result<AdminChange, AdminRefusal> {
    if state.code_host.is_some() || state.name_is_taken {
        return Err(AdminRefusal::CodeHostExists);
    }
    let host = CodeHost { version: state.first_version(), defined_in: DefinedIn::Store, ..host };
    Ok(AdminChange::new([AdminRow::CodeHost(Box::new(host), secrets)], audit))
}

/// Changes a code host. `edit` returns the new host, given the current one, and the changes to its secrets.
///
/// # Errors
/// The code host does not exist or has another version, a field is not valid, or another code host has this address.
pub fn change(
    state: &AdminState,
    edit: impl FnOnce(&CodeHost) -> Result<(CodeHost, HostSecretChanges), InvalidCodeHost>,
    precondition: &Precondition,
    audit: AuditEntry,
) -> Result<AdminChange, AdminRefusal> {
    let current = state.code_host.as_ref().ok_or(AdminRefusal::NoCodeHost)?;
    precondition.check(current.version)?;
    let (host, secrets) = edit(current).map_err(|error| AdminRefusal::InvalidCodeHost(error.to_string()))?;
    if state.name_is_taken {
        return Err(AdminRefusal::CodeHostExists);
    }
    let host =
        CodeHost { version: current.version + 1, created_at: current.created_at, defined_in: DefinedIn::Store, ..host };
    Ok(AdminChange::new([AdminRow::CodeHost(Box::new(host), secrets)], audit))
}

/// Removes a code host with its secrets.
///
/// # Errors
/// The code host does not exist or has another version, or a project names it.
pub fn remove(state: &AdminState, precondition: &Precondition, audit: AuditEntry) -> Result<AdminChange, AdminRefusal> {
    let Some(current) = &state.code_host else {
        return if state.was_deleted { Ok(AdminChange::nothing()) } else { Err(AdminRefusal::NoCodeHost) };
    };
    precondition.check(current.version)?;
    if state.code_host_is_used {
        return Err(AdminRefusal::CodeHostUsed);
    }
    Ok(AdminChange::new([AdminRow::CodeHostRemoved { id: current.id.clone(), at: audit.at }], audit))
}
