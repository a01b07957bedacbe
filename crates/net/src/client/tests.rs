//! Tests with a local server.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use journeyman_testkit::{Fault, ModelServer, PATIENCE, Reply, within};

use super::*;

const LIMITS: Limits = Limits { time: PATIENCE, bytes: 1 << 20 };

/// The limits of a request that is not answered.
const SHORT: Limits = Limits { time: Duration::from_millis(300), bytes: 1 << 20 };

/// A resolver that returns the next of its answers at each call: DNS rebinding.
struct Rebinding {
    answers: Vec<&'static str>,
    calls: AtomicUsize,
}

#[async_trait]
impl Resolver for Rebinding {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let answer = self.answers.get(call).ok_or_else(|| io::Error::other("no such name"))?;
        Ok(vec![answer.parse().unwrap()])
    }
}

fn get(url: &str) -> http::Request<Bytes> {
    http::Request::get(url).body(Bytes::new()).unwrap()
}

/// Returns a client for public addresses, with these answers of its resolver.
fn public(answers: &[&'static str]) -> Client {
    resolved_by(Arc::new(Rebinding { answers: answers.to_vec(), calls: AtomicUsize::new(0) }))
}

fn resolved_by(resolver: Arc<Rebinding>) -> Client {
    Client::new(Settings { policy: Policy::Public(Arc::default()), resolver, ..Settings::default() })
}

#[tokio::test]
async fn a_name_with_a_private_address_is_not_reached() {
    let server = ModelServer::saying("no").await;
    let port = server.url.rsplit(':').next().unwrap().to_owned();
    let url = format!("http://rebound.example:{port}/");
    assert_eq!(
        public(&["127.0.0.1"]).send(get(&url), LIMITS).await.unwrap_err(),
        Error::NotPermitted("rebound.example".to_owned())
    );
    // The name is public when it is checked for the first time, and private when the next request resolves it.
    let resolver = Arc::new(Rebinding { answers: vec!["192.0.2.1", "127.0.0.1"], calls: AtomicUsize::new(0) });
    let rebinding = resolved_by(Arc::clone(&resolver));
    // Without a route to the public address, connecting fails only by its time limit, which may end before the name is
    // resolved.
    within("the name is resolved", async {
        while resolver.calls.load(Ordering::SeqCst) == 0 {
            assert!(rebinding.send(get(&url), SHORT).await.is_err());
        }
    })
    .await;
    assert_eq!(rebinding.send(get(&url), LIMITS).await.unwrap_err(), Error::NotPermitted("rebound.example".to_owned()));
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_private_address_in_a_url_is_not_reached() {
    let server = ModelServer::saying("no").await;
    let refused = public(&[]).send(get(&server.url), LIMITS).await.unwrap_err();
    assert_eq!(refused, Error::NotPermitted("127.0.0.1".to_owned()));
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn an_unknown_name_is_an_error() {
    let unknown = public(&[]).send(get("http://unknown.example/"), LIMITS).await.unwrap_err();
    assert!(matches!(&unknown, Error::NotFound { host, .. } if host == "unknown.example"), "{unknown:?}");
}

#[tokio::test]
async fn a_redirect_is_returned_and_not_followed() {
    let server = ModelServer::start(|_| Reply::Fault(Fault::Redirect)).await;
    let client = Client::new(Settings::default());
    let request = http::Request::post(format!("{}/v1/messages", server.url)).body(Bytes::from_static(b"{}")).unwrap();
    assert_eq!(client.send(request, LIMITS).await.unwrap().status(), 307);
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn answers_have_limits_of_time_and_size() {
    let silent = ModelServer::start(|_| Reply::Fault(Fault::Silence)).await;
    let client = Client::new(Settings::default());
    let post = |url: &str| http::Request::post(format!("{url}/v1/messages")).body(Bytes::from_static(b"{}")).unwrap();
    assert_eq!(client.send(post(&silent.url), SHORT).await.unwrap_err(), Error::Slow(SHORT.time));
    let server = ModelServer::saying(&"long ".repeat(100)).await;
    let small = Limits { bytes: 100, ..LIMITS };
    assert_eq!(client.send(post(&server.url), small).await.unwrap_err(), Error::TooLarge(100));
    assert!(client.send(post(&server.url), LIMITS).await.is_ok());
}

#[tokio::test]
async fn other_schemes_are_refused() {
    let client = Client::new(Settings::default());
    let refused = client.send(get("ftp://example.com/"), LIMITS).await.unwrap_err();
    assert_eq!(refused, Error::Scheme("ftp".to_owned()));
    let only_https = Client::new(Settings { https_only: true, ..Settings::default() });
    let refused = only_https.send(get("http://example.com/"), LIMITS).await.unwrap_err();
    assert_eq!(refused, Error::Scheme("http".to_owned()));
}
