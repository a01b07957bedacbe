//! Cursors: positions in a list, as opaque texts. They are not secret, because the path and not the cursor determines
//! which jobs a client can list.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use journeyman_core::job::Job;
use journeyman_core::ports::Cursor;
use journeyman_core::time::Timestamp;

/// Returns the cursor of the page that begins after a job.
pub(crate) fn after(job: &Job) -> String {
    URL_SAFE_NO_PAD.encode(format!("{}.{}", job.created_at.as_micros(), job.id))
}

/// Parses a cursor.
pub(crate) fn read(text: &str) -> Result<Cursor, ()> {
    let decoded = URL_SAFE_NO_PAD.decode(text).map_err(drop)?;
    let decoded = String::from_utf8(decoded).map_err(drop)?;
    let (micros, id) = decoded.split_once('.').ok_or(())?;
    let created_at = Timestamp::from_micros(micros.parse().map_err(drop)?);
    Ok(Cursor { created_at, id: id.parse().map_err(drop)? })
}
