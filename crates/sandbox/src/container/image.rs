//! Checks whether images are present, fetches them, and reads their configuration.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use bollard::errors::Error;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures::TryStreamExt;
use journeyman_core::ports::{Image, SandboxError};
use journeyman_core::project::PullPolicy;

use super::engine::Engine;
use super::order::Present;

/// The age at which an image with the pull policy `always` is fetched again.
const FRESH: Duration = Duration::from_secs(600);

/// The time that fetching an image may take.
const PULL_TIME: Duration = Duration::from_secs(1800);

/// Substrings, in lowercase, of the messages with which registries and engines report that an image does not exist.
const MISSING: [&str; 5] =
    ["manifest unknown", "name unknown", "repository does not exist", "no such image", "not known to registry"];

/// Substrings, in lowercase, of the messages for images that are not available to us and for invalid image names.
const REFUSED: [&str; 11] = [
    "denied:",
    "access denied",
    "resource is denied",
    "unauthorized",
    "authentication required",
    "no basic auth credentials",
    "invalid username/password",
    "invalid reference",
    "must be lowercase",
    "no matching manifest",
    "did not resolve to an alias",
];

impl Engine {
    /// Makes sure that an image is present.
    pub(super) async fn image(&self, image: &Image) -> Result<Present, SandboxError> {
        let name = &image.name;
        let is_fresh = || {
            let fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
            fetched.get(name).is_some_and(|at| at.elapsed() < FRESH)
        };
        let there = self.docker.inspect_image(name).await;
        let is_missing = matches!(&there, Err(Error::DockerResponseServerError { status_code: 404, .. }));
        let fetch = match image.pull {
            PullPolicy::Missing => is_missing,
            PullPolicy::Always => !is_fresh(),
            PullPolicy::Never if is_missing => {
                return Err(SandboxError::ImageMissing(format!(
                    "the container engine has no image {name}, and does not pull it because sandbox.pull of the \
                     project is \"never\"; pull it there (docker pull, podman pull), or use another image"
                )));
            }
            PullPolicy::Never => false,
        };
        let there = if fetch {
            self.fetch(name).await?;
            self.docker.inspect_image(name).await
        } else {
            there
        };
        let there = there.map_err(|error| self.not_provided(&format!("there is no image {name}"), &error))?;
        let config = there.config.unwrap_or_default();
        let volumes = config.volumes.unwrap_or_default();
        if !volumes.is_empty() {
            let text = format!(
                "the image {name} declares volumes ({}), whose disk usage would be unlimited; use an image that \
                 declares none",
                volumes.join(", ")
            );
            return Err(SandboxError::ImageRefused(text));
        }
        let variables = config.env.unwrap_or_default();
        let split =
            |variable: String| variable.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok(Present { name: name.clone(), environment: variables.into_iter().filter_map(split).collect() })
    }

    async fn fetch(&self, name: &str) -> Result<(), SandboxError> {
        tracing::info!(image = name, "pulling an image");
        let options = CreateImageOptionsBuilder::new().from_image(&whole_name(name)).build();
        let fetching = self.docker.create_image(Some(options), None, None).try_for_each(|_| async { Ok(()) });
        let fetched = tokio::time::timeout(PULL_TIME, fetching).await;
        let text = format!("the image {name} could not be pulled");
        let fetched = fetched.map_err(|_| SandboxError::Unavailable(format!("{text} within half an hour")))?;
        fetched.map_err(|error| self.not_provided(&text, &error))?;
        self.fetched.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), Instant::now());
        Ok(())
    }

    /// Returns the error for an image that could not be provided. A retry helps if the engine or the registry is
    /// unreachable, but not if the registry has answered.
    fn not_provided(&self, what: &str, error: &Error) -> SandboxError {
        let detail =
            || format!("{what}: {error}; use another image, or log the engine in to the registry of the image");
        match judge(error) {
            Some(Verdict::Missing) => SandboxError::ImageMissing(detail()),
            Some(Verdict::Refused) => SandboxError::ImageRefused(detail()),
            None => self.failed(what, error),
        }
    }
}

/// A final answer about an image.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Missing,
    Refused,
}

/// Returns the final answer about an image that an error contains, if any. Engines pass on the registry's message with
/// varying statuses, Podman even within an answer that began with success, so the message counts too.
fn judge(error: &Error) -> Option<Verdict> {
    let (status, text) = match error {
        Error::DockerResponseServerError { status_code, message } => (*status_code, message),
        Error::DockerStreamError { error } => (200, error),
        _ => return None,
    };
    let text = text.to_lowercase();
    let says = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    // A rate limit of the registry passes, and a folder that the engine may not access is not the image's fault.
    if says(&["toomanyrequests", "permission denied"]) {
        return None;
    }
    match status {
        _ if says(&MISSING) => Some(Verdict::Missing),
        _ if says(&REFUSED) => Some(Verdict::Refused),
        404 => Some(Verdict::Missing),
        400 | 401 | 403 => Some(Verdict::Refused),
        _ => None,
    }
}

/// Returns the name of an image with its tag: engines take a name without a tag for all tags when they fetch it (Docker
/// Engine API, `ImageCreate`).
fn whole_name(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains([':', '@']) { name.to_owned() } else { format!("{name}:latest") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_tag_means_the_latest() {
        for (name, whole) in [
            ("debian", "debian:latest"),
            ("localhost:5000/team/base", "localhost:5000/team/base:latest"),
            ("debian:12", "debian:12"),
            ("debian@sha256:00", "debian@sha256:00"),
        ] {
            assert_eq!(whole_name(name), whole);
        }
    }

    #[test]
    fn an_answer_of_a_registry_is_final_and_a_missing_answer_is_not() {
        let docker =
            |status_code, message: &str| Error::DockerResponseServerError { status_code, message: message.into() };
        let podman = |error: &str| Error::DockerStreamError { error: error.into() };
        for (error, verdict) in [
            (
                docker(404, "manifest for debian:none not found: manifest unknown: manifest unknown"),
                Some(Verdict::Missing),
            ),
            (
                docker(
                    404,
                    "pull access denied for x, repository does not exist or may require 'docker login': denied",
                ),
                Some(Verdict::Missing),
            ),
            (docker(404, "No such image: localhost/none:1"), Some(Verdict::Missing)),
            (docker(500, "unauthorized: authentication required"), Some(Verdict::Refused)),
            (docker(500, "denied: requested access to the resource is denied"), Some(Verdict::Refused)),
            (docker(400, "invalid reference format: repository name must be lowercase"), Some(Verdict::Refused)),
            (docker(404, "no matching manifest for linux/arm64 in the manifest list entries"), Some(Verdict::Refused)),
            (podman("reading manifest none in docker.io/library/debian: manifest unknown"), Some(Verdict::Missing)),
            (
                podman("reading manifest 1 in ghcr.io/a/b: denied: requested access to the resource is denied"),
                Some(Verdict::Refused),
            ),
            (docker(500, "normalizing name for compat API: repository name must be lowercase"), Some(Verdict::Refused)),
            (
                docker(500, "Get \"https://localhost:5999/v2/\": dial tcp 127.0.0.1:5999: connect: connection refused"),
                None,
            ),
            (docker(500, "toomanyrequests: You have reached your unauthorized pull rate limit"), None),
            (docker(500, "mkdir /var/lib/docker/tmp: permission denied: unknown"), None),
            (
                podman("pinging container registry x: dial tcp: lookup nowhere.invalid on 10.0.0.1:53: no such host"),
                None,
            ),
            (Error::RequestTimeoutError, None),
        ] {
            assert_eq!(judge(&error), verdict, "{error}");
        }
    }
}
