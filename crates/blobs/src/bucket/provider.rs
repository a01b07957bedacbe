//! The providers of object stores, each behind a feature of this crate.

use std::sync::Arc;
use std::time::Duration;

use journeyman_net::{Client, Settings};
use object_store::client::{HttpClient, HttpConnector};
use object_store::{ClientConfigKey, ClientOptions, ObjectStore, ObjectStoreScheme};
use url::Url;

use super::BucketError;

/// The longest time between two pieces of an answer.
const READ_TIME: Duration = Duration::from_secs(60);

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
        let allows_http = options.get_config_value(&ClientConfigKey::AllowHttp).is_some_and(|value| value == "true");
        let settings = Settings { https_only: !allows_http, read_time: Some(READ_TIME), ..Settings::default() };
        let client = Client::new(&settings);
        let client = client.map_err(|error| object_store::Error::Generic { store: "http", source: error.into() })?;
        Ok(HttpClient::new(client.for_library()))
    }
}
