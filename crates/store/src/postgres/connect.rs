//! Connections to the database that a URL describes.
//!
//! The URL has the format of PostgreSQL's own programs. `sslmode=prefer` (the default) and `sslmode=require` encrypt
//! without verifying the server. `sslmode=verify-full` verifies the certificate against the system's roots, or against
//! those in the file `sslrootcert`; `verify-ca` is treated like `verify-full`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, QueueMode, RecyclingMethod, Timeouts};
use journeyman_core::ports::StoreError;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::epoch::Epochs;

/// The timeout for establishing a connection, and for waiting for a free one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The time after which an unresponsive peer is considered lost, because a network may drop packets silently.
const PEER_TIMEOUT: Duration = Duration::from_secs(10);

/// Sets up a new connection. The timeouts limit how long the locks of a transaction are held after its process was
/// stopped or its network was cut. Each statement is planned once, and all statements use indexes
/// (docs/decisions/0015-plans.md).
pub(crate) const SET_UP: &str = "
    SET search_path TO journeyman;
    SET statement_timeout = '10s';
    SET lock_timeout = '5s';
    SET idle_in_transaction_session_timeout = '10s';
    SET plan_cache_mode = force_generic_plan;
    SET enable_seqscan = off;
    SET jit = off";

/// Makes the server acknowledge a commit only when it is on disk, regardless of the default of the server or the role.
/// A setting that also waits for standbys (`on`, `remote_write`, `remote_apply`) is left unchanged.
pub(crate) const DURABLE: &str = "
    SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_write', 'remote_apply')";

/// Settings for a transaction whose statements may affect many rows: their plans should depend on the number of rows.
pub(super) const PLAN_FOR_MANY: [&str; 2] =
    ["SET LOCAL plan_cache_mode = force_custom_plan", "SET LOCAL enable_seqscan = on"];

/// An error in the URL of a database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The URL is malformed or has an unknown parameter. The message omits the URL, which may contain a password.
    #[error(
        "the database URL is not a valid PostgreSQL URL: {0}; use the form \
         postgres://user:password@host:5432/database?sslmode=verify-full"
    )]
    Malformed(String),
    /// The file with the root certificates cannot be used.
    #[error("sslrootcert: {0}")]
    Roots(String),
    /// The TLS library cannot be configured.
    #[error("TLS cannot be configured: {0}")]
    Tls(String),
}

/// The parameters for new connections.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) config: tokio_postgres::Config,
    pub(crate) tls: MakeRustlsConnect,
}

impl Connector {
    pub(crate) fn new(url: &str) -> Result<Self, UrlError> {
        let (plain, verify, roots) = take_tls(url)?;
        let malformed = |error: tokio_postgres::Error| UrlError::Malformed(super::error::with_causes(&error));
        let mut config: tokio_postgres::Config = plain.parse().map_err(malformed)?;
        if config.get_hosts().is_empty() {
            return Err(UrlError::Malformed("it contains no host".to_owned()));
        }
        if verify {
            config.ssl_mode(SslMode::Require);
        }
        if config.get_application_name().is_none() {
            config.application_name("journeyman");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        config
            // Among several hosts, or behind an address that moves, connect to the server that accepts writes.
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .keepalives_idle(PEER_TIMEOUT)
            .keepalives_interval(PEER_TIMEOUT / 5)
            .keepalives_retries(3)
            .tcp_user_timeout(PEER_TIMEOUT);
        Ok(Self { config, tls: MakeRustlsConnect::new(tls(verify, roots.as_deref().map(Path::new))?) })
    }

    /// Returns a pool of at most `size` connections, which are established on demand. Each of them checks the epoch of
    /// the database before it is used.
    pub(super) fn pool(&self, size: usize, epochs: Option<&Arc<Epochs>>) -> Result<Pool, UrlError> {
        let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(self.config.clone(), self.tls.clone(), manager);
        let epochs = epochs.cloned();
        let set_up = Hook::async_fn(move |client, _| {
            let (text, epochs) = (format!("{SET_UP};{DURABLE}"), epochs.clone());
            Box::pin(async move {
                client.batch_execute(&text).await.map_err(HookError::Backend)?;
                let Some(epochs) = epochs else { return Ok(()) };
                let checked = epochs.check(client).await;
                checked.map_err(|error| HookError::message(StoreError::from(error).to_string()))
            })
        });
        let timeouts =
            Timeouts { wait: Some(CONNECT_TIMEOUT), create: Some(CONNECT_TIMEOUT), recycle: Some(CONNECT_TIMEOUT) };
        let pool = Pool::builder(manager).max_size(size).timeouts(timeouts).post_create(set_up);
        // The connection that was used last has its statements and the server's caches ready.
        let pool = pool.queue_mode(QueueMode::Lifo);
        let pool = pool.runtime(deadpool_postgres::Runtime::Tokio1).build();
        pool.map_err(|error| UrlError::Malformed(error.to_string()))
    }
}

/// Returns the URL without the parameters that the driver does not support, whether to verify the server, and the file
/// with the root certificates.
fn take_tls(url: &str) -> Result<(String, bool, Option<String>), UrlError> {
    let Some((before, query)) = url.split_once('?') else { return Ok((url.to_owned(), false, None)) };
    let (mut rest, mut verify, mut roots) = (Vec::new(), false, None);
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("sslmode", "verify-full" | "verify-ca")) => verify = true,
            // The driver does not support `allow`.
            Some(("sslmode", "allow")) => rest.push("sslmode=prefer"),
            Some(("sslrootcert", path)) => roots = Some(decode(path)?),
            _ => rest.push(pair),
        }
    }
    let query = rest.join("&");
    let plain = if query.is_empty() { before.to_owned() } else { format!("{before}?{query}") };
    Ok((plain, verify, roots))
}

/// Undoes the percent-encoding of a URL.
fn decode(text: &str) -> Result<String, UrlError> {
    let malformed = || UrlError::Malformed("the value of sslrootcert is not valid percent-encoding".to_owned());
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok()).ok_or_else(malformed)?;
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| malformed())?);
            rest = &after[2..];
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).map_err(|_| malformed())
}

fn tls(verify: bool, roots: Option<&Path>) -> Result<ClientConfig, UrlError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let failed = |error: rustls::Error| UrlError::Tls(error.to_string());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(failed)?;
    let config = match (verify, roots) {
        (false, _) => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider))),
        (true, None) => builder.with_platform_verifier().map_err(failed)?,
        (true, Some(path)) => builder.with_root_certificates(read_roots(path)?),
    };
    Ok(config.with_no_client_auth())
}

fn read_roots(path: &Path) -> Result<RootCertStore, UrlError> {
    let failed = |error: &dyn std::fmt::Display| UrlError::Roots(format!("{}: {error}", path.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| failed(&error))? {
        let certificate = certificate.map_err(|error| failed(&error))?;
        roots.add(certificate).map_err(|error| failed(&error))?;
    }
    if roots.is_empty() {
        return Err(failed(&"the file contains no certificate"));
    }
    Ok(roots)
}

/// A verifier that accepts any certificate, as `sslmode=prefer` and `sslmode=require` request: the connection is then
/// protected only against passive eavesdropping. Signatures are still verified.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sslmode_is_interpreted_as_in_postgresql() {
        let of = |url: &str| Connector::new(url).map(|connector| connector.config.get_ssl_mode());
        assert_eq!(of("postgres://u@h/d"), Ok(SslMode::Prefer));
        assert_eq!(of("postgres://u@h/d?sslmode=disable"), Ok(SslMode::Disable));
        assert_eq!(of("postgres://u@h/d?sslmode=require&connect_timeout=3"), Ok(SslMode::Require));
        assert_eq!(of("postgres://u@h/d?sslmode=verify-full"), Ok(SslMode::Require));
        assert!(matches!(of("postgres://u@h/d?sslmode=verify-full&sslrootcert=%2Fnone"), Err(UrlError::Roots(_))));
    }

    #[test]
    fn an_invalid_url_is_rejected_without_revealing_its_password() {
        for url in ["postgres://u:s3cret@h/d?x=y", "postgres://u:s3cret@h:port/d", "postgres:///d?password=s3cret"] {
            let error = Connector::new(url).err().expect(url).to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
