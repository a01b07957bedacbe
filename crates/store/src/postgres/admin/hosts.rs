//! The statements that store code hosts.

use journeyman_core::code_host::{CodeHost, CodeHostId};
use journeyman_core::ports::StoreError;

use super::number;
use crate::postgres::pipeline::{Call, call};
use crate::rows::{HostDocument, to_json};

/// Returns the statement that stores a code host.
pub(super) fn put_code_host(host: &CodeHost) -> Result<Call, StoreError> {
    Ok(call!(
        "INSERT INTO code_hosts (id, name, settings, created_at, version) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (id) DO UPDATE SET name = $2, settings = $3, version = $5",
        host.id.to_string(),
        host.name().0,
        to_json(&HostDocument::of(host))?,
        host.created_at.as_micros(),
        number(host.version),
    ))
}

/// Returns the statement that stores a sealed secret of a code host, or removes it.
pub(super) fn put_host_secret(host: &CodeHostId, name: String, value: Option<Vec<u8>>) -> Call {
    let host = host.to_string();
    match value {
        Some(value) => call!(
            "INSERT INTO code_host_secrets (code_host, name, value) VALUES ($1, $2, $3)
             ON CONFLICT (code_host, name) DO UPDATE SET value = excluded.value",
            host,
            name,
            value
        ),
        None => call!("DELETE FROM code_host_secrets WHERE code_host = $1 AND name = $2", host, name),
    }
}
