//! The wait of a service for its database server, which may start after the service.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use journeyman_http::waiting_router;
use journeyman_store::PostgresStore;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::config::{Database, Settings};
use crate::connections::{self, Registry};
use crate::system::Machine;

/// The pause after the first attempt. Each further pause is twice as long, up to [`LONGEST`].
const FIRST: Duration = Duration::from_millis(250);

/// The longest pause between two attempts.
const LONGEST: Duration = Duration::from_secs(5);

/// The number of attempts between two lines in the log, after the first one.
const QUIET_ATTEMPTS: u32 = 12;

/// Waits until the database server accepts connections. Meanwhile, the service answers `/healthz`, and refuses all other
/// requests with the reason. There is no time limit, because the supervisor of the service would only start it again.
///
/// # Errors
/// The database refuses the user, the password or the database's name, or the URL is not valid: waiting does not help.
pub(crate) async fn wait_for_database(
    settings: &Settings,
    listener: TcpListener,
    registry: &Arc<Registry>,
) -> anyhow::Result<TcpListener> {
    let Database::Postgres(url) = &settings.database else { return Ok(listener) };
    let refused = || settings.database.to_string();
    let Some(first) = PostgresStore::unreachable(url).await.with_context(refused)? else { return Ok(listener) };
    tracing::warn!(reason = first, database = %settings.database, "waiting for the database server");
    let (reason, shown) = watch::channel(first);
    let (listener, own) = twice(listener).context("the listener cannot be duplicated")?;
    let (router, end) = (waiting_router(shown, Arc::new(Machine), Arc::new(Machine)), CancellationToken::new());
    let serving = connections::serve(own, router, Arc::clone(registry), end.clone());
    let serving = AbortOnDropHandle::new(tokio::spawn(serving));
    let (mut pause, mut attempts) = (FIRST, 0);
    loop {
        tokio::time::sleep(pause).await;
        pause = LONGEST.min(pause * 2);
        attempts += 1;
        match PostgresStore::unreachable(url).await.with_context(refused)? {
            None => break,
            Some(text) => {
                if attempts % QUIET_ATTEMPTS == 0 || *reason.borrow() != text {
                    tracing::warn!(reason = text, database = %settings.database, "waiting for the database server");
                }
                reason.send_replace(text);
            }
        }
    }
    tracing::info!(attempts, "the database server accepts connections");
    end.cancel();
    // Connections end after the answer that they wait for.
    serving.await.context("the answers during the start failed")?;
    Ok(listener)
}

/// Returns two listeners on the same socket.
fn twice(listener: TcpListener) -> std::io::Result<(TcpListener, TcpListener)> {
    let listener = listener.into_std()?;
    let copy = listener.try_clone()?;
    Ok((TcpListener::from_std(listener)?, TcpListener::from_std(copy)?))
}
