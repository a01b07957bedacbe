//! The HTTP client of object stores.

use std::error::Error;
use std::time::Duration;

use journeyman_net::{Client, Settings};
use object_store::client::{HttpClient, HttpConnector};
use object_store::{ClientConfigKey, ClientOptions};

/// The longest time between two parts of an answer. The time for sending the request counts too, because a part of an
/// upload has 10 MiB.
const READ_TIME: Duration = Duration::from_secs(300);

/// The time limit for opening a connection.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// Options of the HTTP client that are refused, because the service's own client does not support them.
const REFUSED: [(ClientConfigKey, &str); 4] = [
    (ClientConfigKey::AllowInvalidCertificates, "add the certificate to those of the system"),
    (ClientConfigKey::ProxyUrl, "set HTTPS_PROXY or HTTP_PROXY"),
    (ClientConfigKey::ProxyCaCertificate, "add the certificate to those of the system"),
    (ClientConfigKey::ProxyExcludes, "set NO_PROXY"),
];

/// Makes the object store use the service's HTTP client.
#[derive(Debug)]
pub(super) struct Connector;

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
        let client = Client::new(settings).for_library();
        Ok(HttpClient::new(client.map_err(|error| failed(error.into()))?))
    }
}

/// Returns whether the value of an option means true. Accepts the same words as `object_store`.
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
    fn options_that_the_client_does_not_support_are_refused_with_a_remedy() {
        assert_eq!(connect(ClientConfigKey::AllowHttp, "1"), Ok(()));
        assert_eq!(connect(ClientConfigKey::AllowInvalidCertificates, "false"), Ok(()));
        let refused = connect(ClientConfigKey::ProxyUrl, "http://proxy.example:3128").expect_err("a proxy");
        assert!(refused.contains("PROXY_URL") && refused.contains("set HTTPS_PROXY"), "{refused}");
        let refused = connect(ClientConfigKey::AllowInvalidCertificates, "true").expect_err("invalid certificates");
        assert!(refused.contains("ALLOW_INVALID_CERTIFICATES"), "{refused}");
    }

    #[test]
    fn every_word_for_true_allows_plain_http() {
        for (value, expected) in
            [("1", true), ("TRUE", true), ("yes", true), ("on", true), ("false", false), ("", false)]
        {
            assert_eq!(is_true(value), expected, "{value:?}");
        }
    }
}
