//! A fake OpenID provider on the loopback interface, for tests of sign-in. The test chooses the person who is signed in
//! at the provider, and can make the provider misbehave. The provider generates its keys when it starts.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use journeyman_core::time::Clock;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use url::{Url, form_urlencoded};

/// The ID of the provider's only client.
pub const CLIENT_ID: &str = "journeyman";

/// The secret of the client. It contains characters that must be escaped in requests.
pub const CLIENT_SECRET: &str = "s3cret +/%&=:";

/// A person with an account at the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderAccount {
    /// The provider's ID of the person.
    pub subject: String,
    /// The email address.
    pub email: String,
    /// Set if the provider has verified the email address.
    pub email_verified: bool,
    /// The full name.
    pub name: String,
}

impl ProviderAccount {
    /// Returns Ada Lovelace of example.com, with a verified address.
    #[must_use]
    pub fn ada() -> Self {
        Self {
            subject: "248289761001".to_owned(),
            email: "ada@example.com".to_owned(),
            email_verified: true,
            name: "Ada Lovelace".to_owned(),
        }
    }
}

/// A misbehavior of the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The person denies access.
    AccessDenied,
    /// The redirect back has the `iss` of another provider.
    OtherProvider,
    /// The redirect back has no `iss`.
    NoProvider,
    /// The ID token has the nonce of another sign-in.
    WrongNonce,
    /// The provider knows the browser, and does not ask the person to sign in again: the ID token has the `auth_time` of an
    /// hour ago.
    OldAuthentication,
    /// The ID token has no `auth_time`, although the request had `max_age`.
    NoAuthenticationTime,
    /// The ID token has no nonce.
    NoNonce,
    /// The ID token is for another client.
    WrongAudience,
    /// The ID token is for our client and another one.
    SecondAudience,
    /// The ID token was issued to another client (`azp`).
    WrongParty,
    /// The ID token names another issuer.
    WrongIssuer,
    /// The ID token expired an hour ago.
    ExpiredToken,
    /// The ID token is signed with another key under the right key ID.
    WrongSignature,
    /// The ID token has no signature (`alg` is `none`).
    Unsigned,
    /// The ID token is signed with the client's secret (HS256).
    SharedSecret,
    /// The token endpoint returns no ID token.
    NoToken,
    /// The token endpoint rejects the client.
    UnknownClient,
    /// Only the user info endpoint returns the email address, which is correct but uncommon.
    EmailElsewhere,
    /// Like [`Fault::EmailElsewhere`], but the user info endpoint returns another subject.
    OtherSubject,
    /// The discovery document names another issuer.
    OtherDocument,
    /// The discovery document contains an endpoint without https.
    InsecureEndpoint,
    /// The keys are behind a redirect to another server.
    KeysRedirect,
    /// The discovery document names keys at an address of another server without https.
    InsecureKeys,
    /// Every endpoint but the authorization page responds with 503.
    Failing,
    /// Every endpoint but the authorization page redirects to another server.
    Redirect,
    /// Every endpoint but the authorization page responds with a body of 2 MiB.
    Large,
    /// Every endpoint but the authorization page never answers.
    Silence,
}

/// A token that the provider has not signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgery {
    /// The algorithm is `none`.
    Unsigned,
    /// The signature is HS256 with the public key as the secret.
    PublicKeyAsSecret,
    /// The signature is of another key under the right key ID.
    OtherKey,
    /// The signature is of a key whose ID the provider does not know.
    UnknownKey,
}

/// A fake provider, which runs until it is dropped.
pub struct Provider {
    /// The base URL, which is also the issuer.
    pub issuer: Url,
    state: Arc<State>,
    serving: JoinHandle<()>,
}

struct State {
    issuer: String,
    clock: Arc<dyn Clock>,
    inner: Mutex<Inner>,
}

struct Inner {
    person: ProviderAccount,
    fault: Option<Fault>,
    secret_in_body: bool,
    user_info_path: &'static str,
    key: Key,
    keys_made: usize,
    /// The parameters of the authorization request, by the code that was issued for it.
    grants: HashMap<String, HashMap<String, String>>,
    codes_made: usize,
    asked: Vec<String>,
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Provider {
    /// Starts a provider with an ES256 key, at which Ada is signed in. Its tokens have the time of `clock`.
    pub async fn start(clock: Arc<dyn Clock>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let inner = Inner {
            person: ProviderAccount::ada(),
            fault: None,
            secret_in_body: false,
            user_info_path: "/userinfo",
            key: Key::new(Kind::Es256, "key-0"),
            keys_made: 1,
            grants: HashMap::new(),
            codes_made: 0,
            asked: Vec::new(),
        };
        let state = Arc::new(State { issuer: issuer.clone(), clock, inner: Mutex::new(inner) });
        let served = Arc::clone(&state);
        let serving = tokio::spawn(async move {
            // Dropping the set closes the connections, so that a dropped provider answers no requests.
            let mut clients = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let state = Arc::clone(&served);
                let service = service_fn(move |request| answer(Arc::clone(&state), request));
                clients.spawn(async move {
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(client), service).await;
                });
            }
        });
        Self { issuer: issuer.parse().unwrap(), state, serving }
    }

    /// Signs this person in at the provider.
    pub fn person(&self, person: ProviderAccount) {
        self.state.inner().person = person;
    }

    /// Sets the misbehavior from now on; `None` for none.
    pub fn fault(&self, fault: Option<Fault>) {
        self.state.inner().fault = fault;
    }

    /// Replaces the key with a new ES256 key.
    pub fn rotate_keys(&self) {
        self.state.inner().rotate(Kind::Es256);
    }

    /// Replaces the key with a new RS256 key.
    pub fn sign_with_rsa(&self) {
        self.state.inner().rotate(Kind::Rs256);
    }

    /// Moves the user info endpoint to the path `/people/me`.
    pub fn move_user_info(&self) {
        self.state.inner().user_info_path = "/people/me";
    }

    /// Accepts the client's secret only in the body of a request from now on.
    pub fn take_secret_in_body(&self) {
        self.state.inner().secret_in_body = true;
    }

    /// Returns a token as a CI service gives one to a job, with these claims. Those that are missing, and that each token
    /// has, are added; a claim that is `null` stays away.
    #[must_use]
    pub fn ci_token(&self, claims: &Value) -> String {
        self.state.inner().key.token(&self.ci_claims(claims))
    }

    /// Returns a token like [`Provider::ci_token`] that someone else has made.
    #[must_use]
    pub fn forged_token(&self, forgery: Forgery, claims: &Value) -> String {
        let claims = self.ci_claims(claims);
        let inner = self.state.inner();
        match forgery {
            Forgery::Unsigned => format!("{}x", unsigned(&claims)),
            Forgery::PublicKeyAsSecret => with_secret(&inner.key.public().to_string(), &claims),
            Forgery::OtherKey => Key::new(inner.key.kind(), inner.key.name()).token(&claims),
            Forgery::UnknownKey => Key::new(inner.key.kind(), "key-of-nobody").token(&claims),
        }
    }

    fn ci_claims(&self, claims: &Value) -> Value {
        let now = self.state.clock.now().as_micros() / 1_000_000;
        let mut all = json!({
            "iss": self.state.issuer, "aud": "https://journeyman.example.com", "sub": "repo:acme/shop:ref:refs/heads/main",
            "iat": now, "nbf": now, "exp": now + 300,
        });
        for (name, value) in claims.as_object().into_iter().flatten() {
            all[name] = value.clone();
        }
        if let Some(all) = all.as_object_mut() {
            all.retain(|_, value| !value.is_null());
        }
        all
    }

    /// Returns the paths of all requests so far.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.state.inner().asked.clone()
    }
}

impl Inner {
    fn rotate(&mut self, kind: Kind) {
        self.key = Key::new(kind, &format!("key-{}", self.keys_made));
        self.keys_made += 1;
    }
}

async fn answer(state: Arc<State>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let path = head.uri.path();
    let fault = {
        let mut inner = state.inner();
        inner.asked.push(path.to_owned());
        inner.fault
    };
    if path != "/authorize" {
        match fault {
            Some(Fault::Silence) => std::future::pending::<()>().await,
            Some(Fault::Failing) => return Ok(plain(StatusCode::SERVICE_UNAVAILABLE, "down for maintenance")),
            Some(Fault::Redirect) => return Ok(redirect("https://elsewhere.test/")),
            Some(Fault::KeysRedirect) if path == "/keys" => return Ok(redirect("https://elsewhere.test/keys")),
            Some(Fault::Large) => return Ok(with_json(StatusCode::OK, format!("{{}}{}", " ".repeat(2 << 20)))),
            _ => {}
        }
    }
    Ok(match (&head.method, path) {
        (&Method::GET, "/.well-known/openid-configuration") => ok(&state.discovery(fault)),
        (&Method::GET, "/keys") => ok(&json!({"keys": [state.inner().key.public()]})),
        (&Method::GET, "/authorize") => state.authorize(&form(head.uri.query().unwrap_or_default().as_bytes()), fault),
        (&Method::POST, "/token") => state.token(&head, &form(&body), fault),
        (&Method::GET, path) if path == state.inner().user_info_path => state.user_info(&head, fault),
        _ => plain(StatusCode::NOT_FOUND, "no such page"),
    })
}

impl State {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    fn discovery(&self, fault: Option<Fault>) -> Value {
        let issuer = &self.issuer;
        let method = if self.inner().secret_in_body { "client_secret_post" } else { "client_secret_basic" };
        let user_info_path = self.inner().user_info_path;
        let mut document = json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"),
            "userinfo_endpoint": format!("{issuer}{user_info_path}"),
            "jwks_uri": format!("{issuer}/keys"),
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            // Includes algorithms that clients must not accept.
            "id_token_signing_alg_values_supported": ["RS256", "ES256", "HS256", "none"],
            "token_endpoint_auth_methods_supported": [method],
            "authorization_response_iss_parameter_supported": true,
        });
        match fault {
            Some(Fault::OtherDocument) => document["issuer"] = json!("https://elsewhere.test"),
            Some(Fault::InsecureKeys) => document["jwks_uri"] = json!("http://elsewhere.test/keys"),
            Some(Fault::InsecureEndpoint) => document["token_endpoint"] = json!("http://elsewhere.test/token"),
            _ => {}
        }
        document
    }

    /// Serves the authorization page, on which the signed-in person allows access at once.
    fn authorize(&self, asked: &HashMap<String, String>, fault: Option<Fault>) -> Response<Full<Bytes>> {
        let get = |name: &str| asked.get(name).map_or("", String::as_str);
        let good = get("response_type") == "code"
            && get("client_id") == CLIENT_ID
            && get("code_challenge_method") == "S256"
            && get("scope").split(' ').any(|scope| scope == "openid");
        let Ok(mut back) = get("redirect_uri").parse::<Url>() else {
            return plain(StatusCode::BAD_REQUEST, "no redirect_uri");
        };
        if !good {
            return plain(StatusCode::BAD_REQUEST, "not an authorization request that this provider supports");
        }
        let mut query = back.query_pairs_mut();
        query.append_pair("state", get("state"));
        match fault {
            Some(Fault::NoProvider) => {}
            Some(Fault::OtherProvider) => {
                query.append_pair("iss", "https://elsewhere.test");
            }
            _ => {
                query.append_pair("iss", &self.issuer);
            }
        }
        if fault == Some(Fault::AccessDenied) {
            query.append_pair("error", "access_denied").append_pair("error_description", "The person said no.");
        } else {
            let mut inner = self.inner();
            inner.codes_made += 1;
            let code = format!("code-{}", inner.codes_made);
            query.append_pair("code", &code);
            inner.grants.insert(code, asked.clone());
        }
        drop(query);
        redirect(back.as_str())
    }

    fn token(&self, head: &Parts, form: &HashMap<String, String>, fault: Option<Fault>) -> Response<Full<Bytes>> {
        let get = |name: &str| form.get(name).map_or("", String::as_str);
        let refused = |error: &str| with_json(StatusCode::BAD_REQUEST, json!({"error": error}).to_string());
        let shown = if self.inner().secret_in_body {
            Some((get("client_id").to_owned(), get("client_secret").to_owned()))
        } else {
            basic(head)
        };
        let known = shown.is_some_and(|(id, secret)| id == CLIENT_ID && secret == CLIENT_SECRET);
        if !known || fault == Some(Fault::UnknownClient) {
            return with_json(StatusCode::UNAUTHORIZED, json!({"error": "invalid_client"}).to_string());
        }
        if get("grant_type") != "authorization_code" {
            return refused("unsupported_grant_type");
        }
        // A code is valid only once.
        let Some(grant) = self.inner().grants.remove(get("code")) else {
            return refused("invalid_grant");
        };
        let granted = |name: &str| grant.get(name).map_or("", String::as_str);
        let is_again = grant.contains_key("max_age");
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, get("code_verifier").as_bytes()));
        if challenge != granted("code_challenge") || get("redirect_uri") != granted("redirect_uri") {
            return refused("invalid_grant");
        }
        let mut answer = json!({"access_token": "acc3ss", "token_type": "Bearer", "expires_in": 300});
        if fault != Some(Fault::NoToken) {
            answer["id_token"] = json!(self.id_token(granted("nonce"), is_again, fault));
        }
        ok(&answer)
    }

    /// Returns an ID token; `is_again` is true if the request wants the person to prove who they are again.
    fn id_token(&self, nonce: &str, is_again: bool, fault: Option<Fault>) -> String {
        let inner = self.inner();
        let now = self.clock.now().as_micros() / 1_000_000;
        let mut claims = json!({
            "iss": self.issuer, "sub": inner.person.subject, "aud": CLIENT_ID, "nonce": nonce,
            "iat": now, "exp": now + 300,
        });
        if !matches!(fault, Some(Fault::EmailElsewhere | Fault::OtherSubject)) {
            add_profile(&mut claims, &inner.person);
        }
        if is_again {
            claims["auth_time"] = json!(now);
        }
        match fault {
            Some(Fault::OldAuthentication) => claims["auth_time"] = json!(now - 3600),
            Some(Fault::NoAuthenticationTime) => claims["auth_time"] = Value::Null,
            Some(Fault::WrongNonce) => claims["nonce"] = json!("of another sign-in"),
            Some(Fault::NoNonce) => claims["nonce"] = Value::Null,
            Some(Fault::WrongAudience) => claims["aud"] = json!("another client"),
            Some(Fault::SecondAudience) => claims["aud"] = json!([CLIENT_ID, "another client"]),
            Some(Fault::WrongParty) => claims["azp"] = json!("another client"),
            Some(Fault::WrongIssuer) => claims["iss"] = json!("https://elsewhere.test"),
            Some(Fault::ExpiredToken) => {
                claims["iat"] = json!(now - 3900);
                claims["exp"] = json!(now - 3600);
            }
            _ => {}
        }
        match fault {
            Some(Fault::WrongSignature) => Key::new(inner.key.kind(), inner.key.name()).token(&claims),
            Some(Fault::Unsigned) => unsigned(&claims),
            Some(Fault::SharedSecret) => with_secret(CLIENT_SECRET, &claims),
            _ => inner.key.token(&claims),
        }
    }

    fn user_info(&self, head: &Parts, fault: Option<Fault>) -> Response<Full<Bytes>> {
        if head.headers.get(AUTHORIZATION).is_none_or(|shown| shown != "Bearer acc3ss") {
            return plain(StatusCode::UNAUTHORIZED, "no access token");
        }
        let inner = self.inner();
        let subject = if fault == Some(Fault::OtherSubject) { "other-subject" } else { inner.person.subject.as_str() };
        let mut claims = json!({"sub": subject});
        add_profile(&mut claims, &inner.person);
        ok(&claims)
    }
}

fn add_profile(claims: &mut Value, person: &ProviderAccount) {
    claims["email"] = json!(person.email);
    claims["email_verified"] = json!(person.email_verified);
    claims["name"] = json!(person.name);
}

/// Returns the client's ID and secret from the `Authorization` header. Both are form-encoded before they are joined
/// (RFC 6749, 2.3.1).
fn basic(head: &Parts) -> Option<(String, String)> {
    let shown = head.headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Basic ")?;
    let shown = String::from_utf8(STANDARD.decode(shown).ok()?).ok()?;
    let (id, secret) = shown.split_once(':')?;
    let plain = |escaped: &str| form(format!("x={escaped}").as_bytes()).remove("x");
    Some((plain(id)?, plain(secret)?))
}

fn form(text: &[u8]) -> HashMap<String, String> {
    form_urlencoded::parse(text).into_owned().collect()
}

fn ok(document: &Value) -> Response<Full<Bytes>> {
    with_json(StatusCode::OK, document.to_string())
}

fn with_json(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let body = Full::new(Bytes::from(text));
    Response::builder().status(status).header(CONTENT_TYPE, "application/json").body(body).unwrap()
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let body = Full::new(Bytes::from_static(text.as_bytes()));
    Response::builder().status(status).header(CONTENT_TYPE, "text/plain").body(body).unwrap()
}

fn redirect(url: &str) -> Response<Full<Bytes>> {
    Response::builder().status(StatusCode::FOUND).header(LOCATION, url).body(Full::default()).unwrap()
}

/// The algorithm of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// P-256.
    Es256,
    /// RSA with 2048 bits.
    Rs256,
}

enum Pair {
    Es256(EcdsaKeyPair),
    Rs256(RsaKeyPair),
}

/// A signing key with its key ID.
struct Key {
    name: String,
    pair: Pair,
}

impl Key {
    fn new(kind: Kind, name: &str) -> Self {
        let pair = match kind {
            Kind::Es256 => Pair::Es256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap()),
            Kind::Rs256 => Pair::Rs256(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()),
        };
        Self { name: name.to_owned(), pair }
    }

    fn kind(&self) -> Kind {
        match self.pair {
            Pair::Es256(_) => Kind::Es256,
            Pair::Rs256(_) => Kind::Rs256,
        }
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// Returns the public key as a JSON Web Key.
    fn public(&self) -> Value {
        let name = &self.name;
        match &self.pair {
            Pair::Es256(pair) => {
                // One byte for the uncompressed format, then the two coordinates.
                let point = pair.public_key().as_ref();
                let (x, y) = (encode(&point[1..33]), encode(&point[33..]));
                json!({"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": name, "x": x, "y": y})
            }
            Pair::Rs256(pair) => {
                let public = pair.public_key();
                let n = encode(public.modulus().big_endian_without_leading_zero());
                let e = encode(public.exponent().big_endian_without_leading_zero());
                json!({"kty": "RSA", "use": "sig", "alg": "RS256", "kid": name, "n": n, "e": e})
            }
        }
    }

    /// Returns a token signed with this key.
    fn token(&self, claims: &Value) -> String {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Es256(pair) => {
                let input = input(&json!({"alg": "ES256", "kid": self.name, "typ": "JWT"}), claims);
                let signature = pair.sign(&random, input.as_bytes()).unwrap();
                format!("{input}.{}", encode(signature.as_ref()))
            }
            Pair::Rs256(pair) => {
                let input = input(&json!({"alg": "RS256", "kid": self.name, "typ": "JWT"}), claims);
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, input.as_bytes(), &mut signature).unwrap();
                format!("{input}.{}", encode(&signature))
            }
        }
    }
}

/// Returns a token without a signature.
fn unsigned(claims: &Value) -> String {
    format!("{}.", input(&json!({"alg": "none"}), claims))
}

/// Returns a token signed with the client's secret.
fn with_secret(secret: &str, claims: &Value) -> String {
    let input = input(&json!({"alg": "HS256", "typ": "JWT"}), claims);
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), input.as_bytes());
    format!("{input}.{}", encode(tag.as_ref()))
}

fn input(header: &Value, claims: &Value) -> String {
    format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()))
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
