//! The providers of object stores, each behind a feature of this crate.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use journeyman_net::{Client, Settings};
use object_store::client::{HttpClient, HttpConnector};
use object_store::{ClientConfigKey, ClientOptions, ObjectStore, ObjectStoreScheme};
use url::Url;

use super::BucketError;

/// The longest time between two pieces of an answer. It includes the time in which the request is sent: a part of an
/// upload has 10 MiB.
const READ_TIME: Duration = Duration::from_secs(300);

/// The time limit for opening a connection.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// Options of the HTTP client that are refused, because the client of the service does not have them.
const REFUSED: [(ClientConfigKey, &str); 4] = [
    (ClientConfigKey::AllowInvalidCertificates, "add the certificate to those of the system"),
    (ClientConfigKey::ProxyUrl, "set HTTPS_PROXY or HTTP_PROXY"),
    (ClientConfigKey::ProxyCaCertificate, "add the certificate to those of the system"),
    (ClientConfigKey::ProxyExcludes, "set NO_PROXY"),
];

/// Opens the object store of a URL.
pub(super) fn open(
    scheme: &ObjectStoreScheme,
    url: &Url,
    options: impl IntoIterator<Item = (String, String)>,
) -> Result<Arc<dyn ObjectStore>, BucketError> {
    /// Builds a store with the options that its provider knows.
    macro_rules! build {
        ($builder:ty) => {{
            let builder = <$builder>::new().with_url(url.to_string()).with_http_connector(Connector);
            let builder =
                options.into_iter().fold(builder, |builder, (name, value)| match name.to_ascii_lowercase().parse() {
                    Ok(key) => builder.with_config(key, value),
                    Err(_) => builder,
                });
            Ok(Arc::new(builder.build().map_err(|error| BucketError(error.to_string()))?))
        }};
    }
    match scheme {
        #[cfg(feature = "aws")]
        ObjectStoreScheme::AmazonS3 => build!(object_store::aws::AmazonS3Builder),
        #[cfg(feature = "gcp")]
        ObjectStoreScheme::GoogleCloudStorage => build!(object_store::gcp::GoogleCloudStorageBuilder),
        #[cfg(feature = "azure")]
        ObjectStoreScheme::MicrosoftAzure => build!(object_store::azure::MicrosoftAzureBuilder),
        // For tests: the blobs end with the process.
        ObjectStoreScheme::Memory => Ok(Arc::new(object_store::memory::InMemory::new())),
        _ => Err(BucketError(format!(
            "{url} is not a URL of a supported provider; use s3://, gs:// or az:// (this program has:{}{}{})",
            if cfg!(feature = "aws") { " s3" } else { "" },
            if cfg!(feature = "gcp") { " gs" } else { "" },
            if cfg!(feature = "azure") { " az" } else { "" },
        ))),
    }
}

/// Makes the object store use the service's HTTP client.
#[derive(Debug)]
struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed = |source: Box<dyn Error + Send + Sync>| object_store::Error::Generic { store: "http", source };
        for (key, remedy) in REFUSED {
            if options.get_config_value(&key).is_some_and(|value| !value.is_empty() && value != "false") {
                let name = key.as_ref().to_ascii_uppercase();
                return Err(failed(format!("the option {name} of the blob store is not supported; {remedy}").into()));
            }
        }
        let allows_http = options.get_config_value(&ClientConfigKey::AllowHttp).is_some_and(|value| is_true(&value));
        let settings = Settings {
            https_only: !allows_http,
            connect_time: CONNECT_TIME,
            read_time: Some(READ_TIME),
            // Large transfers at the same time are faster on separate connections.
            http1_only: true,
            ..Settings::default()
        };
        let client = Client::new(&settings).and_then(|client| client.for_library());
        Ok(HttpClient::new(client.map_err(|error| failed(error.into()))?))
    }
}

/// Returns whether an option is set, in the form in which `object_store` reads options.
fn is_true(value: &str) -> bool {
    ["1", "true", "on", "yes", "y"].contains(&value.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(key: ClientConfigKey, value: &str) -> Result<(), String> {
        let options = ClientOptions::new().with_config(key, value);
        Connector.connect(&options).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn options_that_the_client_does_not_have_are_refused_with_a_remedy() {
        assert_eq!(connect(ClientConfigKey::AllowHttp, "1"), Ok(()));
        assert_eq!(connect(ClientConfigKey::AllowInvalidCertificates, "false"), Ok(()));
        let refused = connect(ClientConfigKey::ProxyUrl, "http://proxy.example:3128").expect_err("a proxy");
        assert!(refused.contains("PROXY_URL") && refused.contains("set HTTPS_PROXY"), "{refused}");
        let refused = connect(ClientConfigKey::AllowInvalidCertificates, "true").expect_err("invalid certificates");
        assert!(refused.contains("ALLOW_INVALID_CERTIFICATES"), "{refused}");
    }

    #[test]
    fn plain_http_is_allowed_by_all_words_for_true() {
        for (value, expected) in
            [("1", true), ("TRUE", true), ("yes", true), ("on", true), ("false", false), ("", false)]
        {
            assert_eq!(is_true(value), expected, "{value:?}");
        }
    }
}
