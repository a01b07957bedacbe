//! The providers of object stores, each behind a feature of this crate.

use std::sync::Arc;
#[cfg(any(feature = "aws", feature = "azure", feature = "gcp"))]
use std::time::Duration;

use object_store::{ObjectStore, ObjectStoreScheme};
use url::Url;

use super::BucketError;

/// Returns how often a request is repeated. The caller of a blob store waits and tries again too, and tells why, so the
/// repetitions only bridge errors that pass at once.
#[cfg(any(feature = "aws", feature = "azure", feature = "gcp"))]
fn retry() -> object_store::RetryConfig {
    object_store::RetryConfig { max_retries: 4, retry_timeout: Duration::from_secs(20), ..Default::default() }
}

/// Opens the object store of a URL.
#[cfg_attr(
    not(any(feature = "aws", feature = "azure", feature = "gcp")),
    expect(unused_variables, reason = "options of providers")
)]
pub(super) fn open(
    scheme: &ObjectStoreScheme,
    url: &Url,
    options: impl IntoIterator<Item = (String, String)>,
) -> Result<Arc<dyn ObjectStore>, BucketError> {
    /// Builds a store with the options that its provider knows.
    #[cfg(any(feature = "aws", feature = "azure", feature = "gcp"))]
    macro_rules! build {
        ($builder:ty) => {{
            let builder = <$builder>::new()
                .with_url(url.to_string())
                .with_http_connector(super::connector::Connector)
                .with_retry(retry());
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
        // For tests: the blobs are lost when the process ends.
        ObjectStoreScheme::Memory => Ok(Arc::new(object_store::memory::InMemory::new())),
        _ => Err(BucketError(format!(
            "{url} is not a URL of a supported provider; use s3://, gs:// or az:// (this program has:{}{}{})",
            if cfg!(feature = "aws") { " s3" } else { "" },
            if cfg!(feature = "gcp") { " gs" } else { "" },
            if cfg!(feature = "azure") { " az" } else { "" },
        ))),
    }
}
