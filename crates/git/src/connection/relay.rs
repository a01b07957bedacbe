//! The relay between a git process and the server of its remote.
//!
//! A relay belongs to one command, and connects to one destination. It listens on the loopback interface, where every
//! program of the machine can use it while the command runs: it gives such a program nothing but a connection to the
//! server of the remote, without a credential.

use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use journeyman_core::ports::ReachedServers;
use journeyman_net::{Error as NetError, Outbound, Policy, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Duration, timeout};

/// The maximum number of connections at the same time.
const CONNECTIONS: usize = 32;

/// The time limit for the request of a client.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// The protocol between git and the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaks {
    /// SOCKS 5 (RFC 1928): the client names the destination, which must be that of the remote.
    Socks,
    /// None: each connection leads to the destination.
    Nothing,
}

/// A running relay; dropping it closes its connections.
#[derive(Debug)]
pub(super) struct Relay {
    /// The port on 127.0.0.1.
    pub(super) port: u16,
    error: Arc<Mutex<Option<NetError>>>,
    task: AbortHandle,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Relay {
    /// Starts a relay.
    pub(super) async fn start(
        outbound: Outbound,
        policy: Policy,
        target: Target,
        speaks: Speaks,
        reached: &ReachedServers,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let error = Arc::default();
        let relaying =
            Relaying { outbound, policy, target, speaks, error: Arc::clone(&error), reached: reached.clone() };
        let task = tokio::spawn(Arc::new(relaying).serve(listener)).abort_handle();
        Ok(Self { port, error, task })
    }

    /// Returns the failure of the last attempt to connect, if it failed.
    pub(super) fn error(&self) -> Option<NetError> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Relaying {
    outbound: Outbound,
    policy: Policy,
    target: Target,
    speaks: Speaks,
    error: Arc<Mutex<Option<NetError>>>,
    reached: ReachedServers,
}

/// The answers of a SOCKS server (RFC 1928, section 6).
#[derive(Clone, Copy)]
enum Reply {
    Succeeded = 0,
    NotAllowed = 2,
    Unreachable = 4,
    NotSupported = 7,
}

impl Relaying {
    /// Serves connections until this future is dropped, which closes all of them.
    async fn serve(self: Arc<Self>, listener: TcpListener) {
        let (limit, mut connections) = (Arc::new(Semaphore::new(CONNECTIONS)), JoinSet::new());
        loop {
            let Ok(permit) = Arc::clone(&limit).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((client, _)) => {
                    let relaying = Arc::clone(&self);
                    connections.spawn(async move {
                        let _permit = permit;
                        // Either side may end the connection.
                        let _ = relaying.relay(client).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection of git could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
    }

    async fn relay(&self, mut client: TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        if self.speaks == Speaks::Socks {
            let asked = timeout(REQUEST_TIME, request(&mut client)).await.map_err(io::Error::from)??;
            match asked {
                Some(asked) if self.is_target(&asked) => {}
                Some(asked) => {
                    tracing::warn!(target = %self.target, asked = ?asked, "git asked for another server than its remote's");
                    return reply(&mut client, Reply::NotAllowed).await;
                }
                None => return reply(&mut client, Reply::NotSupported).await,
            }
        }
        let dialed = self.outbound.dial(&self.policy, &self.target).await;
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = dialed.as_ref().err().cloned();
        let mut server = match dialed {
            Ok(server) => server,
            Err(error) => {
                tracing::info!(target = %self.target, %error, "the server of a repository was not reached");
                return match self.speaks {
                    Speaks::Socks => reply(&mut client, Reply::Unreachable).await,
                    Speaks::Nothing => Ok(()),
                };
            }
        };
        server.set_nodelay(true)?;
        let address = server.peer_addr()?.ip().to_canonical();
        let (host, address) = (&self.target.host, address.to_string());
        self.reached.add(if *host == address { address } else { format!("{host} ({address})") });
        if self.speaks == Speaks::Socks {
            reply(&mut client, Reply::Succeeded).await?;
        }
        copy_bidirectional(&mut client, &mut server).await?;
        Ok(())
    }

    /// Returns whether the destination of a request is that of the remote.
    fn is_target(&self, asked: &Target) -> bool {
        let plain = |host: &str| host.trim_end_matches('.').to_lowercase();
        let is_host = match (asked.host.parse::<std::net::IpAddr>(), self.target.host.parse::<std::net::IpAddr>()) {
            (Ok(one), Ok(other)) => one == other,
            (Err(_), Err(_)) => plain(&asked.host) == plain(&self.target.host),
            _ => false,
        };
        is_host && asked.port == self.target.port
    }
}

/// Reads the request of a client for a connection. Returns `None` if it asks for something else.
async fn request(client: &mut TcpStream) -> io::Result<Option<Target>> {
    let [version, methods] = read(client).await?;
    if version != 5 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    client.read_exact(&mut vec![0; usize::from(methods)]).await?;
    client.write_all(&[5, 0]).await?;
    let [version, command, _, kind] = read(client).await?;
    if version != 5 || command != 1 {
        return Ok(None);
    }
    let host = match kind {
        1 => std::net::Ipv4Addr::from(read::<4>(client).await?).to_string(),
        4 => std::net::Ipv6Addr::from(read::<16>(client).await?).to_string(),
        3 => {
            let [length] = read(client).await?;
            let mut name = vec![0; usize::from(length)];
            client.read_exact(&mut name).await?;
            String::from_utf8(name).map_err(|_| io::ErrorKind::InvalidData)?
        }
        _ => return Ok(None),
    };
    Ok(Some(Target { host, port: u16::from_be_bytes(read(client).await?) }))
}

async fn read<const N: usize>(client: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn reply(client: &mut TcpStream, reply: Reply) -> io::Result<()> {
    client.write_all(&[5, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0]).await
}
