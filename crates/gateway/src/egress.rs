//! The proxy that programs in a sandbox reach package registries by: HTTP's CONNECT (RFC 9110, section 9.3.6), to exact
//! names and ports of the project's list.
//!
//! Invariants: a name is resolved once, and what is connected to is the address that was checked; nothing but the target
//! of the request says where to; of a request that is not understood to the letter nothing is done.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use journeyman_core::egress::{Allowlist, Destination, is_public};
use journeyman_core::ports::{EgressDecision, EgressLog};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::resolver::Resolver;

/// Connections of one sandbox at a time; more wait.
const CONNECTIONS: usize = 128;

/// A request may have so many bytes.
const REQUEST_BYTES: usize = 8 << 10;

/// And so many fields.
const FIELDS: usize = 64;

/// How long a request may take to arrive.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// How long a destination may take to answer.
const CONNECT_TIME: Duration = Duration::from_secs(15);

/// Bytes of a destination that are told.
const TOLD_BYTES: usize = 300;

/// One sandbox's proxy.
pub(crate) struct Egress {
    pub(crate) allowed: Allowlist,
    pub(crate) told: EgressLog,
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) private: Vec<IpNet>,
}

/// Why a request is not granted, as a status and in words.
struct Denied {
    status: &'static str,
    destination: String,
    why: String,
}

impl Egress {
    /// Serves until it is dropped, and all connections with it.
    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener) {
        let (room, mut connections) = (Arc::new(Semaphore::new(CONNECTIONS)), JoinSet::new());
        loop {
            let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((client, _)) => {
                    let egress = Arc::clone(&self);
                    connections.spawn(async move {
                        let _place = place;
                        egress.answer(client).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection out of a sandbox could not be taken");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
    }

    async fn answer(&self, mut client: TcpStream) {
        let asked = match timeout(REQUEST_TIME, read_request(&mut client)).await {
            Ok(Ok(asked)) => asked,
            // Gone, or too slow.
            Ok(Err(_)) | Err(_) => return,
        };
        let reached = match asked {
            Ok((destination, rest)) => self.reach(&destination).await.map(|server| (destination, rest, server)),
            Err(denied) => Err(denied),
        };
        match reached {
            Ok((destination, rest, server)) => {
                (self.told)(EgressDecision { destination: destination.to_string(), allowed: true, reason: None });
                // Whichever of the two ends it.
                let _ = tunnel(client, server, &rest).await;
            }
            Err(Denied { status, mut destination, why }) => {
                let body = format!("{why}\n");
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                let mut end = destination.len().min(TOLD_BYTES);
                while !destination.is_char_boundary(end) {
                    end -= 1;
                }
                destination.truncate(end);
                (self.told)(EgressDecision { destination, allowed: false, reason: Some(why) });
                // It may be gone.
                let _ = client.write_all(format!("{head}{body}").as_bytes()).await;
                let _ = client.shutdown().await;
            }
        }
    }

    /// Connects to a destination that is allowed.
    async fn reach(&self, destination: &Destination) -> Result<TcpStream, Denied> {
        let denied = |status, why: String| Denied { status, destination: destination.to_string(), why };
        if !self.allowed.has(destination) {
            let why = format!(
                "{destination} is not among what this project's programs may reach; add it to sandbox.egress of the project"
            );
            return Err(denied("403 Forbidden", why));
        }
        let resolved = timeout(CONNECT_TIME, self.resolver.resolve(destination.host())).await;
        let addresses = resolved.map_err(io::Error::from).and_then(|addresses| addresses);
        let addresses =
            addresses.map_err(|error| denied("502 Bad Gateway", format!("{destination} was not found: {error}")))?;
        let may = |address: &IpAddr| is_public(*address) || self.private.iter().any(|net| net.contains(address));
        let good: Vec<IpAddr> = addresses.into_iter().filter(may).collect();
        if good.is_empty() {
            let why = format!(
                "{destination} has no address that may be reached: it is not public; the operator may add its network to \
                 egress-private"
            );
            return Err(denied("403 Forbidden", why));
        }
        let mut last = String::new();
        for address in good {
            match timeout(CONNECT_TIME, TcpStream::connect(SocketAddr::new(address, destination.port()))).await {
                Ok(Ok(server)) => return Ok(server),
                Ok(Err(error)) => last = error.to_string(),
                Err(_) => last = "it does not answer".to_owned(),
            }
        }
        Err(denied("502 Bad Gateway", format!("{destination} cannot be reached: {last}")))
    }
}

type Asked = Result<(Destination, Vec<u8>), Denied>;

/// Where a client wants to go, and what it has sent beyond its request.
async fn read_request(client: &mut TcpStream) -> io::Result<Asked> {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        if client.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(&bytes) {
            Ok(httparse::Status::Complete(length)) => {
                let asked = understand(&request);
                return Ok(asked.map(|destination| (destination, bytes[length..].to_vec())));
            }
            Ok(httparse::Status::Partial) if bytes.len() <= REQUEST_BYTES => {}
            Ok(httparse::Status::Partial) | Err(_) => {
                let destination = String::from_utf8_lossy(&bytes[..bytes.len().min(TOLD_BYTES)]).replace('\0', "");
                let why = "this is no request that a proxy takes".to_owned();
                return Ok(Err(Denied { status: "400 Bad Request", destination, why }));
            }
        }
    }
}

fn understand(request: &httparse::Request<'_, '_>) -> Result<Destination, Denied> {
    let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    let denied = |status, why: &str| Denied { status, destination: target.to_owned(), why: why.to_owned() };
    if method != "CONNECT" {
        let why = "only CONNECT is served: use https, by which a program talks to its destination itself";
        return Err(denied("405 Method Not Allowed", why));
    }
    // A request that has a body for one reader and none for another.
    let has_body = |field: &httparse::Header<'_>| {
        ["content-length", "transfer-encoding"].iter().any(|name| field.name.eq_ignore_ascii_case(name))
    };
    if request.headers.iter().any(has_body) {
        return Err(denied("400 Bad Request", "CONNECT has no body"));
    }
    target.parse().map_err(|error: journeyman_core::egress::InvalidDestination| {
        denied("400 Bad Request", &format!("{target:?} is no destination: {error}"))
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
    use std::sync::Mutex;

    use async_trait::async_trait;

    use super::*;

    /// Each time another address.
    struct Changing(Mutex<Vec<&'static str>>);

    #[async_trait]
    impl Resolver for Changing {
        async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            let address = self.0.lock().unwrap().pop().ok_or(io::ErrorKind::NotFound)?;
            Ok(vec![address.parse().unwrap()])
        }
    }

    /// What the proxy answers, and what it tells. Who listens at the destination says `hello`.
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
        let told = Arc::new(Mutex::new(Vec::new()));
        let (proxy, teller) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), Arc::clone(&told));
        let address = proxy.local_addr().unwrap();
        let egress = Egress {
            allowed: Allowlist::read(&[format!("good.example:{port}"), "npm".to_owned()]).unwrap(),
            told: Box::new(move |decision| teller.lock().unwrap().push(decision)),
            resolver: Arc::new(Changing(Mutex::new(addresses))),
            private: vec![private.parse().unwrap()],
        };
        let serving = tokio::spawn(Arc::new(egress).serve(proxy));
        let mut client = TcpStream::connect(address).await.unwrap();
        let request = String::from_utf8_lossy(request).replace("PORT", &port.to_string());
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = timeout(Duration::from_secs(20), client.read_to_end(&mut answer)).await.unwrap();
        serving.abort();
        let decisions = told.lock().unwrap().iter().cloned().collect();
        (String::from_utf8_lossy(&answer).into_owned(), decisions)
    }

    #[tokio::test]
    async fn what_is_allowed_is_reached_and_told() {
        let (answer, told) = ask(
            b"CONNECT good.example:PORT HTTP/1.1\r\nHost: evil.example\r\n\r\nearly",
            vec!["127.0.0.1"],
            "127.0.0.0/8",
        )
        .await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");
        assert!(told.len() == 1 && told[0].allowed && told[0].destination.starts_with("good.example:"), "{told:?}");
    }

    #[tokio::test]
    async fn everything_else_is_denied_with_a_reason() {
        for (request, status, word) in [
            ("CONNECT evil.example:PORT HTTP/1.1\r\n\r\n", "403", "sandbox.egress"),
            ("CONNECT good.example:1 HTTP/1.1\r\n\r\n", "403", "sandbox.egress"),
            ("CONNECT x.good.example:PORT HTTP/1.1\r\n\r\n", "403", "sandbox.egress"),
            ("CONNECT good.example.evil:PORT HTTP/1.1\r\n\r\n", "403", "sandbox.egress"),
            ("CONNECT good.example.:PORT HTTP/1.1\r\n\r\n", "400", "no destination"),
            ("CONNECT GOOD.example:PORT HTTP/1.1\r\n\r\n", "400", "no destination"),
            ("CONNECT me@good.example:PORT HTTP/1.1\r\n\r\n", "400", "no destination"),
            ("CONNECT 127.0.0.1:PORT HTTP/1.1\r\n\r\n", "400", "no destination"),
            ("CONNECT 2130706433:PORT HTTP/1.1\r\n\r\n", "400", "no destination"),
            ("CONNECT [::1]:PORT HTTP/1.1\r\n\r\n", "400", "no destination"),
            ("CONNECT good.example:PORT HTTP/1.1\r\nContent-Length: 4\r\n\r\n", "400", "no body"),
            ("CONNECT good.example:PORT HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "400", "no body"),
            ("CONNECT good.example\0.evil:PORT HTTP/1.1\r\n\r\n", "400", "no request"),
            ("GET http://good.example:PORT/ HTTP/1.1\r\n\r\n", "405", "https"),
            ("nonsense\r\n\r\n", "400", "no request"),
        ] {
            let (answer, told) = ask(request.as_bytes(), vec!["127.0.0.1"], "127.0.0.0/8").await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(word),
                "{request:?}: {answer}"
            );
            assert!(told.len() == 1 && !told[0].allowed && told[0].reason.is_some(), "{request:?}: {told:?}");
        }
        let long = format!("CONNECT good.example:PORT HTTP/1.1\r\nX: {}", "x".repeat(20_000));
        let (answer, _) = ask(long.as_bytes(), vec![], "127.0.0.0/8").await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }

    #[tokio::test]
    async fn an_address_that_is_not_public_is_not_reached_by_a_name() {
        let request = b"CONNECT good.example:PORT HTTP/1.1\r\n\r\n";
        for address in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", "64:ff9b::7f00:1"] {
            let (answer, told) = ask(request, vec![address], "192.168.7.0/24").await;
            assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("egress-private"), "{address}: {answer}");
            assert!(!told[0].allowed);
        }
        // A name that changes its mind was asked once.
        let (answer, _) = ask(request, vec!["127.0.0.1", "10.0.0.1"], "127.0.0.0/8").await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        let (answer, _) = ask(request, vec![], "127.0.0.0/8").await;
        assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("was not found"), "{answer}");
    }
}
