//! The connections of clients: an accept loop with limits and timeouts.
//!
//! Anybody may open connections, so those on which no request was authenticated are worth the least: there is a limit for
//! each address and one for all ([`admission`]), and at a limit the oldest connection without an authenticated request is
//! closed for the new one. A health check or a client with a key is accepted whatever others hold open. Connections with
//! an authenticated request are closed by the idle timeout alone, never in the middle of a request ([`activity`]).
//!
//! Invariant: the socket of a connection is closed before its slot is free, so there are never more descriptors than slots.

mod activity;
mod admission;
mod io;
mod limits;
mod registry;
mod serve;
#[cfg(test)]
mod tests;

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

/// Connections that the kernel completes before they are accepted. Linux cuts it to `net.core.somaxconn`.
const BACKLOG: u32 = 4096;

/// A silent peer is probed after this time: one that is gone must not keep an authenticated connection.
const PROBE_AFTER: Duration = Duration::from_secs(60);

/// The wait after accept has failed for want of descriptors or memory.
const RETRY: Duration = Duration::from_millis(100);

/// Connections without an authenticated request that are closed when descriptors have run out.
const CLOSED_WITHOUT_DESCRIPTORS: usize = 32;

/// Refused connections that are kept for a moment, so that their clients can read why.
const LINGERING: usize = 64;

/// That moment.
const LINGER: Duration = Duration::from_secs(1);

/// Binds a listener. What is set on it holds for the connections that it accepts.
///
/// # Errors
/// The address cannot be listened on.
pub(crate) fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    // Small answers must not wait for the acknowledgement of others.
    socket.set_nodelay(true)?;
    socket.set_keepalive(true)?;
    rustix::net::sockopt::set_tcp_keepidle(&socket, PROBE_AFTER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts and serves connections until `drain` fires, then waits for the last answers.
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
            // The client has left before it was accepted.
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

/// Answers a connection that is not admitted, and waits a moment for the client to read it: closing a socket with
/// unread data takes the answer back.
async fn refuse(mut socket: TcpStream, answer: String, _held: (OwnedSemaphorePermit, OwnedSemaphorePermit)) {
    let told = async {
        socket.write_all(answer.as_bytes()).await?;
        socket.shutdown().await?;
        let mut rest = [0; 1024];
        while socket.read(&mut rest).await? > 0 {}
        Ok::<_, std::io::Error>(())
    };
    // Whether the client has read it or not, its connection ends here.
    drop(tokio::time::timeout(LINGER, told).await);
}
