//! The proxy through which programs in a sandbox reach package registries: HTTP CONNECT (RFC 9110, section 9.3.6) to
//! the exact names and ports on the project's allowlist.
//!
//! Invariants:
//!
//! - A name is resolved once, and the proxy connects only to an address that it has checked.
//! - Only the target of the request determines the destination.
//! - Malformed requests are rejected.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use journeyman_core::egress::{Allowlist, Destination};
use journeyman_core::ports::{EgressDecision, EgressLog};
use journeyman_net::{Error as NetError, Policy, Resolver, connect};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The maximum number of concurrent connections of one sandbox; more connections wait.
const CONNECTIONS: usize = 128;

/// The maximum size of a request in bytes.
const REQUEST_BYTES: usize = 8 << 10;

/// The maximum number of header fields of a request.
const FIELDS: usize = 64;

/// The time limit for receiving a request.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// The time limit for resolving the name of a destination, and for each attempt to connect.
const CONNECT_TIME: Duration = Duration::from_secs(15);

/// The maximum size of a destination in the log, in bytes.
const LOGGED_BYTES: usize = 300;

/// The egress proxy of one sandbox.
pub(crate) struct Egress {
    pub(crate) allowed: Allowlist,
    pub(crate) log: EgressLog,
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) policy: Policy,
}

/// A refusal: the HTTP status and the reason.
struct Denied {
    status: &'static str,
    destination: String,
    why: String,
}

impl Egress {
    /// Serves connections until this future is dropped, which closes all of them.
    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener) {
        let (limit, mut connections) = (Arc::new(Semaphore::new(CONNECTIONS)), JoinSet::new());
        loop {
            let Ok(permit) = Arc::clone(&limit).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((client, _)) => {
                    let egress = Arc::clone(&self);
                    connections.spawn(async move {
                        let _permit = permit;
                        egress.answer(client).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection from a sandbox could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
    }

    async fn answer(&self, mut client: TcpStream) {
        let parsed = match timeout(REQUEST_TIME, read_request(&mut client)).await {
            Ok(Ok(parsed)) => parsed,
            // The client has disconnected, or is too slow.
            Ok(Err(_)) | Err(_) => return,
        };
        let reached = match parsed {
            Ok((destination, rest)) => self.connect(&destination).await.map(|server| (destination, rest, server)),
            Err(denied) => Err(denied),
        };
        match reached {
            Ok((destination, rest, server)) => {
                (self.log)(EgressDecision { destination: destination.to_string(), allowed: true, reason: None });
                // Either side may end the connection.
                let _ = tunnel(client, server, &rest).await;
            }
            Err(Denied { status, mut destination, why }) => {
                let body = format!("{why}\n");
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                let mut end = destination.len().min(LOGGED_BYTES);
                while !destination.is_char_boundary(end) {
                    end -= 1;
                }
                destination.truncate(end);
                (self.log)(EgressDecision { destination, allowed: false, reason: Some(why) });
                // The client may have disconnected.
                let _ = client.write_all(format!("{head}{body}").as_bytes()).await;
                let _ = client.shutdown().await;
            }
        }
    }

    /// Connects to a destination if the project allows it.
    async fn connect(&self, destination: &Destination) -> Result<TcpStream, Denied> {
        let denied = |status, why: String| Denied { status, destination: destination.to_string(), why };
        if !self.allowed.has(destination) {
            let why = format!(
                "{destination} is not on the allowlist of this project; add it to sandbox.egress of the project"
            );
            return Err(denied("403 Forbidden", why));
        }
        let reached =
            connect(&*self.resolver, &self.policy, destination.host(), destination.port(), CONNECT_TIME).await;
        reached.map_err(|error| match error {
            NetError::NotPermitted(_) => {
                let why = format!(
                    "{destination} has no public address; the operator can allow its network with egress-private"
                );
                denied("403 Forbidden", why)
            }
            NetError::NotFound { cause, .. } => {
                denied("502 Bad Gateway", format!("{destination} was not found: {cause}"))
            }
            error => denied("502 Bad Gateway", format!("{destination} cannot be reached: {error}")),
        })
    }
}

type Parsed = Result<(Destination, Vec<u8>), Denied>;

/// Reads a request. Returns its destination, and the bytes that the client has sent after the request.
async fn read_request(client: &mut TcpStream) -> io::Result<Parsed> {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        if client.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(&bytes) {
            Ok(httparse::Status::Complete(length)) => {
                let parsed = parse_target(&request);
                return Ok(parsed.map(|destination| (destination, bytes[length..].to_vec())));
            }
            Ok(httparse::Status::Partial) if bytes.len() <= REQUEST_BYTES => {}
            Ok(httparse::Status::Partial) | Err(_) => {
                let destination = String::from_utf8_lossy(&bytes[..bytes.len().min(LOGGED_BYTES)]).replace('\0', "");
                let why = "this is not a valid proxy request".to_owned();
                return Ok(Err(Denied { status: "400 Bad Request", destination, why }));
            }
        }
    }
}

fn parse_target(request: &httparse::Request<'_, '_>) -> Result<Destination, Denied> {
    let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    let denied = |status, why: &str| Denied { status, destination: target.to_owned(), why: why.to_owned() };
    if method != "CONNECT" {
        let why = "the proxy serves only CONNECT; use https, for which programs send CONNECT";
        return Err(denied("405 Method Not Allowed", why));
    }
    // Parsers may disagree on whether such a request has a body.
    let has_body = |field: &httparse::Header<'_>| {
        ["content-length", "transfer-encoding"].iter().any(|name| field.name.eq_ignore_ascii_case(name))
    };
    if request.headers.iter().any(has_body) {
        return Err(denied("400 Bad Request", "a CONNECT request must not have a body"));
    }
    target.parse().map_err(|error: journeyman_core::egress::InvalidDestination| {
        denied("400 Bad Request", &format!("{target:?} is not a valid destination: {error}"))
    })
}

async fn tunnel(mut client: TcpStream, mut server: TcpStream, rest: &[u8]) -> io::Result<()> {
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    server.write_all(rest).await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Mutex;

    use async_trait::async_trait;
    use journeyman_testkit::within;

    use super::*;

    /// A resolver that returns a different address each time.
    struct Changing(Mutex<Vec<&'static str>>);

    #[async_trait]
    impl Resolver for Changing {
        async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            let address = self.0.lock().unwrap().pop().ok_or(io::ErrorKind::NotFound)?;
            Ok(vec![address.parse().unwrap()])
        }
    }

    /// Sends a request to a proxy; returns the proxy's answer and the decisions that it logged. The destination sends
    /// `hello`.
    async fn ask(request: &[u8], addresses: Vec<&'static str>, private: &str) -> (String, Vec<EgressDecision>) {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut one, _)) = server.accept().await {
                let _ = one.write_all(b"hello").await;
                let _ = one.shutdown().await;
                let _ = one.read(&mut [0; 100]).await;
            }
        });
        let log = Arc::new(Mutex::new(Vec::new()));
        let (proxy, sink) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), Arc::clone(&log));
        let address = proxy.local_addr().unwrap();
        let egress = Egress {
            allowed: Allowlist::read(&[format!("good.example:{port}"), "npm".to_owned()]).unwrap(),
            log: Box::new(move |decision| sink.lock().unwrap().push(decision)),
            resolver: Arc::new(Changing(Mutex::new(addresses))),
            policy: Policy::Public(Arc::from([private.parse::<ipnet::IpNet>().unwrap()])),
        };
        let serving = tokio::spawn(Arc::new(egress).serve(proxy));
        let mut client = TcpStream::connect(address).await.unwrap();
        let request = String::from_utf8_lossy(request).replace("PORT", &port.to_string());
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = within("the proxy answers", client.read_to_end(&mut answer)).await;
        serving.abort();
        let decisions = log.lock().unwrap().iter().cloned().collect();
        (String::from_utf8_lossy(&answer).into_owned(), decisions)
    }

    #[tokio::test]
    async fn an_allowed_destination_is_reached_and_logged() {
        let (answer, log) = ask(
            b"CONNECT good.example:PORT HTTP/1.1\r\nHost: evil.example\r\n\r\nearly",
            vec!["127.0.0.1"],
            "127.0.0.0/8",
        )
        .await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");
        assert!(log.len() == 1 && log[0].allowed && log[0].destination.starts_with("good.example:"), "{log:?}");
    }

    #[tokio::test]
    async fn other_requests_are_denied_with_a_reason() {
        for (request, status, word) in [
            ("CONNECT evil.example:PORT HTTP/1.1\r\n\r\n", "403", "sandbox.egress"),
            ("CONNECT good.example:1 HTTP/1.1\r\n\r\n", "403", "sandbox.egress"),
            ("CONNECT x.good.example:PORT HTTP/1.1\r\n\r\n", "403", "sandbox.egress"),
            ("CONNECT good.example.evil:PORT HTTP/1.1\r\n\r\n", "403", "sandbox.egress"),
            ("CONNECT good.example.:PORT HTTP/1.1\r\n\r\n", "400", "not a valid destination"),
            ("CONNECT GOOD.example:PORT HTTP/1.1\r\n\r\n", "400", "not a valid destination"),
            ("CONNECT me@good.example:PORT HTTP/1.1\r\n\r\n", "400", "not a valid destination"),
            ("CONNECT 127.0.0.1:PORT HTTP/1.1\r\n\r\n", "400", "not a valid destination"),
            ("CONNECT 2130706433:PORT HTTP/1.1\r\n\r\n", "400", "not a valid destination"),
            ("CONNECT [::1]:PORT HTTP/1.1\r\n\r\n", "400", "not a valid destination"),
            ("CONNECT good.example:PORT HTTP/1.1\r\nContent-Length: 4\r\n\r\n", "400", "must not have a body"),
            ("CONNECT good.example:PORT HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "400", "must not have a body"),
            ("CONNECT good.example\0.evil:PORT HTTP/1.1\r\n\r\n", "400", "not a valid proxy request"),
            ("GET http://good.example:PORT/ HTTP/1.1\r\n\r\n", "405", "https"),
            ("nonsense\r\n\r\n", "400", "not a valid proxy request"),
        ] {
            let (answer, log) = ask(request.as_bytes(), vec!["127.0.0.1"], "127.0.0.0/8").await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(word),
                "{request:?}: {answer}"
            );
            assert!(log.len() == 1 && !log[0].allowed && log[0].reason.is_some(), "{request:?}: {log:?}");
        }
        let long = format!("CONNECT good.example:PORT HTTP/1.1\r\nX: {}", "x".repeat(20_000));
        let (answer, _) = ask(long.as_bytes(), vec![], "127.0.0.0/8").await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }

    #[tokio::test]
    async fn a_name_with_a_private_address_is_denied() {
        let request = b"CONNECT good.example:PORT HTTP/1.1\r\n\r\n";
        for address in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", "64:ff9b::7f00:1"] {
            let (answer, log) = ask(request, vec![address], "192.168.7.0/24").await;
            assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("egress-private"), "{address}: {answer}");
            assert!(!log[0].allowed);
        }
        // A name whose address changes is resolved only once.
        let (answer, _) = ask(request, vec!["127.0.0.1", "10.0.0.1"], "127.0.0.0/8").await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        let (answer, _) = ask(request, vec![], "127.0.0.0/8").await;
        assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("was not found"), "{answer}");
    }
}
