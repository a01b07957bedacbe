//! The connections of clients: an accept loop with limits and timeouts.
//!
//! Anyone may open connections, so connections without an authenticated request have the lowest priority. There is a
//! limit for each address and one for all connections ([`admission`]); at a limit, the oldest connection without an
//! authenticated request is closed for the new one. Connections that others hold open therefore do not block health
//! checks or clients with a key. A connection with an authenticated request is not closed for another one; only
//! timeouts close it, but not in the middle of an authenticated request ([`activity`]).
//!
//! Invariant: the socket of a connection is closed before its slot is free, so there are never more descriptors than
//! slots.

mod activity;
mod admission;
mod io;
mod limits;
mod registry;
mod request_body;
mod serve;
mod strict_transport;
#[cfg(test)]
mod tests;
mod unreadable;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use rustix::io::Errno;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use self::activity::Timeouts;
pub(crate) use self::limits::limits;
use self::registry::Admitted;
pub(crate) use self::registry::Registry;

/// The number of connections that the kernel completes before they are accepted. Linux caps it at `net.core.somaxconn`.
const BACKLOG: u32 = 4096;

/// The number of bytes that wait in the kernel for a client before the socket takes no more. More would hide for long
/// that a client takes no bytes, and would use memory for each such client.
const UNSENT_BYTES: u32 = 256 << 10;

/// The time after which a silent peer is probed: a peer that has vanished must not keep an authenticated connection.
const PROBE_AFTER: Duration = Duration::from_secs(60);

/// The wait after accept has failed for lack of descriptors or memory.
const RETRY: Duration = Duration::from_millis(100);

/// The number of connections without an authenticated request that are closed when descriptors have run out.
const CLOSED_WITHOUT_DESCRIPTORS: usize = 32;

/// The maximum number of refused connections that stay open so that their clients can read the reason.
const LINGERING: usize = 64;

/// The maximum time that a refused connection stays open.
const LINGER: Duration = Duration::from_secs(1);

/// Binds a listener. Accepted connections inherit its socket options.
///
/// # Errors
/// The listener cannot be bound to the address.
pub(crate) fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    // Small responses must not wait for the acknowledgment of earlier ones.
    socket.set_nodelay(true)?;
    socket.set_keepalive(true)?;
    rustix::net::sockopt::set_tcp_keepidle(&socket, PROBE_AFTER)?;
    socket2::SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT_BYTES)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts and serves connections until `drain` is cancelled, then waits until all connections have ended.
pub(crate) async fn serve(listener: TcpListener, router: Router, registry: Arc<Registry>, drain: CancellationToken) {
    let (tasks, lingering) = (TaskTracker::new(), Arc::new(Semaphore::new(LINGERING)));
    loop {
        let (socket, peer, slot) = tokio::select! {
            () = drain.cancelled() => break,
            accepted = accept(&listener, &registry) => accepted,
        };
        match registry.admit(peer.ip()) {
            Admitted::Yes(ticket) => {
                let (router, drain) = (router.clone(), drain.clone());
                tasks.spawn(serve::connection(socket, peer, router, ticket, drain, slot));
            }
            Admitted::No => {
                if let Ok(permit) = Arc::clone(&lingering).try_acquire_owned() {
                    tasks.spawn(refuse(socket, registry.refusal(), (slot, permit)));
                }
            }
        }
    }
    drop(listener);
    tasks.close();
    tasks.wait().await;
}

/// Accepts the next connection once there is a slot for its descriptor. No error ends the loop.
async fn accept(listener: &TcpListener, registry: &Registry) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    let slot = registry.slot().await;
    loop {
        let error = match listener.accept().await {
            Ok((socket, peer)) => return (socket, peer, slot),
            Err(error) => error,
        };
        match error.kind() {
            // The client disconnected before it was accepted.
            ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused => {}
            _ => {
                let without_descriptors = [Errno::MFILE, Errno::NFILE].map(|errno| Some(errno.raw_os_error()));
                let close =
                    if without_descriptors.contains(&error.raw_os_error()) { CLOSED_WITHOUT_DESCRIPTORS } else { 0 };
                registry.accept_failed(&error, close);
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// Sends the reason to a connection that is not admitted, and waits up to [`LINGER`] for the client to close it.
/// Closing a socket with unread data would discard the response.
async fn refuse(mut socket: TcpStream, answer: String, _held: (OwnedSemaphorePermit, OwnedSemaphorePermit)) {
    let respond = async {
        socket.write_all(answer.as_bytes()).await?;
        socket.shutdown().await?;
        let mut rest = [0; 1024];
        while socket.read(&mut rest).await? > 0 {}
        Ok::<_, std::io::Error>(())
    };
    // The connection ends here, whether or not the client has read the response.
    drop(tokio::time::timeout(LINGER, respond).await);
}
