//! Reads a container engine's description of itself: whether its root is the host's root, and which limits it supports.

use std::io;
use std::path::Path;
use std::time::Duration;

use journeyman_core::project::Resources;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// The time that the engine may take to answer a ping, and to describe itself.
const PING_TIME: Duration = Duration::from_secs(5);
const INFO_TIME: Duration = Duration::from_secs(60);

/// The maximum size of such an answer in bytes.
const ANSWER_BYTES: u64 = 1 << 20;

/// The path of the description that Docker and Podman have in common, in any version.
const COMMON: &str = "/info";

/// The path of Podman's own description, in the oldest API version that every Podman since 4 serves. Docker has no such
/// path.
const PODMAN: &str = "/v4.0.0/libpod/info";

/// The smallest share of a processor that engines accept, in billionths.
const LEAST_CPU: i64 = 10_000_000;

/// A container engine, as it describes itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct EngineInfo {
    /// `true` if the engine runs without root privileges. Root in its containers is then the user who runs the engine.
    pub(super) is_rootless: bool,
    /// `true` if the engine is rootless and can keep that user's ID in a container (`keep-id`). Only Podman can.
    pub(super) keeps_user: bool,
    /// `true` if the engine gives containers SELinux labels.
    pub(super) has_selinux: bool,
    /// The number of processors that the engine has for containers.
    processors: Option<i64>,
    /// The control group controllers that the engine may use; `None` if it may use all.
    controllers: Option<Vec<String>>,
}

/// The limits of a container in the units of engines; `None` means no limit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ContainerLimits {
    pub(super) memory_bytes: Option<i64>,
    pub(super) processes: Option<i64>,
    pub(super) nano_cpus: Option<i64>,
}

impl EngineInfo {
    /// Asks the engine that listens on a socket for its description.
    pub(super) async fn ask(socket: &Path) -> io::Result<Self> {
        let (status, common) = get(socket, COMMON, INFO_TIME).await?;
        if status != 200 {
            let text = String::from_utf8_lossy(&common).trim().to_owned();
            return Err(io::Error::other(format!("the response has status {status}: {text}")));
        }
        let podman = match get(socket, PODMAN, INFO_TIME).await? {
            (200, body) => Some(serde_json::from_slice(&body)?),
            _ => None,
        };
        Ok(Self::read(&serde_json::from_slice(&common)?, podman.as_ref()))
    }

    /// Combines the description that Docker and Podman have in common with Podman's own.
    ///
    /// Docker lists `rootless` among its security options. Podman 4.3 does not; it has a separate field, `Rootless`
    /// (`containers/podman`, pkg/api/handlers/compat/info.go).
    fn read(common: &Value, podman: Option<&Value>) -> Self {
        let options = || common["SecurityOptions"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let has_option = |name: &str| options().any(|option| option.contains(name));
        let keeps_user = common["Rootless"].as_bool().unwrap_or_default();
        let is_rootless = keeps_user || has_option("rootless");
        let controllers = podman.and_then(|info| info.pointer("/host/cgroupControllers")).map(|list| {
            let names = list.as_array().into_iter().flatten();
            names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
        });
        let processors = common["NCPU"].as_i64().filter(|count| *count > 0);
        // Docker lists SELinux among its security options, Podman among its own description.
        let of_podman = podman.and_then(|info| info.pointer("/host/security/selinuxEnabled")).and_then(Value::as_bool);
        let has_selinux = of_podman.unwrap_or_else(|| has_option("selinux"));
        Self { is_rootless, keeps_user, has_selinux, processors, controllers: controllers.filter(|_| is_rootless) }
    }

    /// Returns the limits as far as this engine supports them. Engines refuse a container that asks for more processors
    /// than there are, and rootless Podman refuses one that asks for a limit whose controller is not delegated to it.
    pub(super) fn limits(&self, resources: &Resources) -> ContainerLimits {
        let can = |name: &str| self.controllers.as_ref().is_none_or(|all| all.iter().any(|one| one == name));
        let cpus = resources.cpu_millis.filter(|_| can("cpu")).map(|millis| i64::from(millis) * 1_000_000);
        let most = self.processors.map_or(i64::MAX, |count| count.saturating_mul(1_000_000_000));
        ContainerLimits {
            memory_bytes: resources
                .memory_bytes
                .filter(|_| can("memory"))
                .map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
            processes: resources.processes.filter(|_| can("pids")).map(i64::from),
            nano_cpus: cpus.map(|cpus| cpus.min(most).max(LEAST_CPU)),
        }
    }
}

/// Checks whether an engine answers right now.
pub(super) async fn ping(socket: &Path) -> io::Result<()> {
    match get(socket, "/_ping", PING_TIME).await? {
        (200, _) => Ok(()),
        (status, _) => Err(io::Error::other(format!("the response has status {status}"))),
    }
}

/// Sends one request without a body on a new connection; returns the status and the body of the answer.
async fn get(socket: &Path, path: &str, time: Duration) -> io::Result<(u16, Vec<u8>)> {
    let exchange = async {
        let mut stream = UnixStream::connect(socket).await?;
        // In HTTP/1.0, the answer ends with the connection and is not chunked (RFC 9112).
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES).read_to_end(&mut answer).await?;
        io::Result::Ok(answer)
    };
    let answer = match tokio::time::timeout(time, exchange).await {
        Ok(answer) => answer?,
        Err(_) => {
            let text = format!("no answer in {} seconds", time.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
    };
    let split = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let status = split.and_then(|end| std::str::from_utf8(&answer[..end]).ok()?.split(' ').nth(1)?.parse().ok());
    match (split, status) {
        (Some(end), Some(status)) => Ok((status, answer[end + 4..].to_vec())),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the response is not valid HTTP")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::net::UnixListener;

    use super::*;

    #[test]
    fn a_rootless_engine_is_recognized_by_its_description() {
        let podman = |rootless: bool| json!({ "NCPU": 2, "Rootless": rootless, "SecurityOptions": ["name=seccomp"] });
        let docker = |option: &str| json!({ "NCPU": 2, "SecurityOptions": ["name=seccomp", option] });
        for (common, is_rootless, keeps_user) in [
            (podman(true), true, true),
            (podman(false), false, false),
            (docker("name=rootless"), true, false),
            (docker("name=cgroupns"), false, false),
            (json!({ "NCPU": 2 }), false, false),
        ] {
            let controllers = json!({ "host": { "cgroupControllers": ["memory", "pids"] } });
            let info = EngineInfo::read(&common, Some(&controllers));
            let EngineInfo { processors, .. } = info;
            assert_eq!((info.is_rootless, info.keeps_user, processors), (is_rootless, keeps_user, Some(2)), "{common}");
            // Root may use all controllers, whatever Podman lists.
            assert_eq!(info.controllers.is_some(), is_rootless, "{common}");
        }
    }

    #[test]
    fn an_engine_with_selinux_is_recognized_by_its_description() {
        let podman = |enabled: bool| json!({ "host": { "security": { "selinuxEnabled": enabled } } });
        let docker = json!({ "SecurityOptions": ["name=seccomp,profile=builtin", "name=selinux", "name=cgroupns"] });
        for (common, own, expected) in [
            (&docker, None, true),
            (&json!({ "SecurityOptions": ["name=seccomp,profile=builtin"] }), None, false),
            (&json!({}), None, false),
            (&json!({}), Some(podman(true)), true),
            (&json!({}), Some(podman(false)), false),
            (&json!({}), Some(json!({ "host": {} })), false),
        ] {
            assert_eq!(EngineInfo::read(common, own.as_ref()).has_selinux, expected, "{common} {own:?}");
        }
    }

    #[test]
    fn limits_do_not_exceed_what_the_engine_has() {
        let resources = |cpu_millis| Resources {
            memory_bytes: Some(1 << 30),
            processes: Some(48),
            cpu_millis: Some(cpu_millis),
            file_bytes: None,
            disk_bytes: None,
        };
        let info = EngineInfo { processors: Some(2), ..EngineInfo::default() };
        for (millis, nano) in [(8000, 2_000_000_000), (2000, 2_000_000_000), (1500, 1_500_000_000), (1, 10_000_000)] {
            assert_eq!(info.limits(&resources(millis)).nano_cpus, Some(nano), "{millis}");
        }
        let unknown = EngineInfo::default().limits(&resources(8000));
        assert_eq!(unknown.nano_cpus, Some(8_000_000_000));
        let controllers = Some(vec!["memory".to_owned(), "pids".to_owned()]);
        let few = EngineInfo { controllers, is_rootless: true, ..info.clone() }.limits(&resources(1000));
        let expected = ContainerLimits { memory_bytes: Some(1 << 30), processes: Some(48), nano_cpus: None };
        assert_eq!(few, expected);
        let none = EngineInfo { controllers: Some(Vec::new()), is_rootless: true, ..info };
        assert_eq!(none.limits(&resources(1000)), ContainerLimits::default());
    }

    #[tokio::test]
    async fn answers_and_failures_of_an_engine_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("engine.sock");
        assert_eq!(ping(&socket).await.unwrap_err().kind(), io::ErrorKind::NotFound);
        let listener = UnixListener::bind(&socket).unwrap();
        let serve = async {
            for answer in [
                "HTTP/1.0 200 OK\r\nServer: x\r\n\r\nOK",
                "HTTP/1.0 503 Service Unavailable\r\n\r\n",
                "HTTP/1.0 200 OK\r\n\r\n{\"NCPU\":4,\"Rootless\":true}",
                "HTTP/1.0 404 Not Found\r\n\r\n{}",
                "HTTP/1.0 403 Forbidden\r\n\r\nnot for you",
                "nonsense",
            ] {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 256];
                assert!(stream.read(&mut request).await.unwrap() > 0);
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        };
        let ask = async {
            ping(&socket).await.unwrap();
            assert!(ping(&socket).await.unwrap_err().to_string().contains("503"));
            let info = EngineInfo::ask(&socket).await.unwrap();
            assert_eq!(
                info,
                EngineInfo {
                    is_rootless: true,
                    keeps_user: true,
                    has_selinux: false,
                    processors: Some(4),
                    controllers: None
                }
            );
            assert!(EngineInfo::ask(&socket).await.unwrap_err().to_string().contains("403: not for you"));
            assert_eq!(ping(&socket).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        };
        tokio::join!(serve, ask);
    }
}
