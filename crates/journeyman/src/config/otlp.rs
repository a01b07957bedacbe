//! The settings of the export of traces.

use std::path::Path;

use anyhow::{Context, bail};
use journeyman_core::secret::SecretValue;
use url::Url;

use super::layer::Layer;

/// The collector of traces.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OtlpSettings {
    /// The URL that takes traces.
    pub(crate) endpoint: Url,
    /// The additional header fields of each request, such as a token.
    pub(crate) headers: Vec<(String, SecretValue)>,
    /// The share of the traces that are exported, from 0 to 1. A trace that a client has begun is exported if the
    /// client records it.
    pub(crate) sample: f64,
}

impl Eq for OtlpSettings {}

/// Returns the collector of the settings, if there is one.
pub(super) fn collector(layer: &Layer) -> anyhow::Result<Option<OtlpSettings>> {
    let Some(endpoint) = &layer.otlp_endpoint else {
        if layer.otlp_headers_file.is_some() || layer.otlp_sample.is_some() {
            bail!("otlp-endpoint is missing; set it to the address of the OpenTelemetry collector");
        }
        return Ok(None);
    };
    let sample = layer.otlp_sample.unwrap_or(1.0);
    if !(0.0..=1.0).contains(&sample) {
        bail!("otlp-sample must be from 0 to 1");
    }
    let headers = layer.otlp_headers_file.as_deref().map(headers).transpose()?.unwrap_or_default();
    Ok(Some(OtlpSettings { endpoint: address(endpoint)?, headers, sample }))
}

/// Returns the address for traces. The setting names the collector; the path is that of the OTLP specification.
fn address(endpoint: &str) -> anyhow::Result<Url> {
    let invalid = "otlp-endpoint must be the URL of an OpenTelemetry collector, such as http://localhost:4318";
    let mut url = Url::parse(endpoint).context(invalid)?;
    if !["http", "https"].contains(&url.scheme()) || !url.username().is_empty() || url.password().is_some() {
        bail!("{invalid}, without a user and a password; put a token into otlp-headers-file");
    }
    if !url.path().ends_with("/v1/traces") {
        let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
        url.set_path(&path);
    }
    Ok(url)
}

/// Reads header fields, one in each line: `name: value`.
fn headers(path: &Path) -> anyhow::Result<Vec<(String, SecretValue)>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("otlp-headers-file: {} cannot be read", path.display()))?;
    let field = |(number, line): (usize, &str)| {
        let (name, value) = line.split_once(':')?;
        let (name, value) = (name.trim(), value.trim());
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        let is_value = !value.is_empty() && value.bytes().all(|b| b == b' ' || b.is_ascii_graphic());
        (is_name && is_value).then(|| (number, (name.to_owned(), SecretValue(value.to_owned()))))
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            let parsed = field((number, line)).map(|(_, field)| field);
            // The line is not shown, because it may contain a token.
            parsed.with_context(|| {
                format!("otlp-headers-file: line {} of {} is not \"name: value\"", number + 1, path.display())
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_specification_is_added() {
        for (given, expected) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
            ("https://otlp.example/base/", "https://otlp.example/base/v1/traces"),
            ("https://otlp.example/v1/traces", "https://otlp.example/v1/traces"),
        ] {
            assert_eq!(address(given).unwrap().as_str(), expected);
        }
        for given in ["", "localhost:4318", "grpc://localhost:4317", "https://user:secret@otlp.example"] {
            let error = format!("{:#}", address(given).unwrap_err());
            assert!(error.contains("otlp-endpoint") && !error.contains("secret"), "{given}: {error}");
        }
    }

    #[test]
    fn a_setting_without_a_collector_is_an_error() {
        let layer = Layer { otlp_sample: Some(0.5), ..Layer::default() };
        assert!(collector(&layer).unwrap_err().to_string().contains("otlp-endpoint is missing"));
        let endpoint = Some("http://localhost:4318".to_owned());
        let layer = Layer { otlp_endpoint: endpoint.clone(), otlp_sample: Some(1.5), ..Layer::default() };
        assert!(collector(&layer).unwrap_err().to_string().contains("otlp-sample"));
        assert_eq!(collector(&Layer::default()).unwrap(), None);
        let layer = Layer { otlp_endpoint: endpoint, ..Layer::default() };
        assert_eq!(collector(&layer).unwrap().map(|found| found.sample), Some(1.0));
    }

    #[test]
    fn header_fields_are_read_and_a_wrong_line_is_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("headers");
        std::fs::write(&path, "authorization: Bearer abc\n\nx-team: a b\n").unwrap();
        let fields = headers(&path).unwrap();
        assert_eq!(fields[0], ("authorization".to_owned(), SecretValue("Bearer abc".to_owned())));
        assert_eq!(fields.len(), 2);
        std::fs::write(&path, "x: y\ns3cret\n").unwrap();
        let error = headers(&path).unwrap_err().to_string();
        assert!(error.contains("line 2") && !error.contains("s3cret"), "{error}");
        let missing = headers(&dir.path().join("none")).unwrap_err().to_string();
        assert!(missing.contains("cannot be read"), "{missing}");
    }
}
