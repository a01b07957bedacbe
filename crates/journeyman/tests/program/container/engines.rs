//! Container engines, which a test starts and stops.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use journeyman_testkit::{PATIENCE, until};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use crate::program::fixtures::open_folder;

pub(super) const IMAGE: &str = "localhost/journeyman-test:latest";

/// The user that runs rootless Podman if the tests run as root; `make test-containers` makes this user.
const USER: &str = "journeyman-test";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Podman,
    RootlessPodman,
    Docker,
}

/// An engine that the test has started, with the image.
pub(super) struct Engine {
    pub(super) socket: PathBuf,
    pub(super) dir: tempfile::TempDir,
    /// The command line of the client, before the words of a command.
    client: Vec<String>,
    /// The command line of the server.
    server: Vec<String>,
    service: Option<Child>,
    kind: Kind,
}

impl Drop for Engine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let last = log.len().saturating_sub(4096);
            let _ = writeln!(
                std::io::stderr(),
                "the engine's log ends: {}",
                String::from_utf8_lossy(&log.as_bytes()[last..])
            );
        }
        if let Some(service) = &mut self.service {
            // Remove the containers of services that the test has killed.
            for container in self.socket.exists().then(|| list(&self.socket, "")).into_iter().flatten() {
                let id = container["Id"].as_str().unwrap_or_default();
                answer(&self.socket, "DELETE", &format!("/v1.40/containers/{id}?force=true"));
            }
            // The server may have exited already.
            let _ = kill_process(Pid::from_child(service), Signal::TERM);
            let end = Instant::now() + PATIENCE;
            while service.try_wait().is_ok_and(|exit| exit.is_none()) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = kill_process_group(Pid::from_child(service), Signal::KILL);
            let _ = service.wait();
        }
        // The mounts of a killed engine stay, and its folder could not be removed.
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        for point in points.filter(|point| Path::new(point).starts_with(self.dir.path())) {
            let _ = Command::new("umount").args(["--lazy", point]).status();
        }
        if self.kind == Kind::RootlessPodman {
            // This ends the process that holds the engine's namespace.
            let _ = self.command(&["system", "migrate"]).status();
        }
    }
}

/// Starts an engine that can run the image; prints the reason and returns `None` if this machine cannot.
pub(super) fn engine(kind: Kind) -> Option<Engine> {
    match start(kind) {
        Ok(engine) => Some(engine),
        Err(reason) => {
            #[expect(clippy::print_stderr, reason = "for the person who runs the tests")]
            {
                eprintln!("SKIPPED: {kind:?} was not tested: {reason}");
            }
            None
        }
    }
}

/// Returns the image, or a variant that the arguments of the script select.
pub(super) fn image(arguments: &[&str]) -> Vec<u8> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/test-image.sh");
    let made = Command::new("sh").arg(script).args(arguments).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    made.stdout
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn is_installed(program: &str) -> bool {
    let folders = ["/usr/local/bin", "/usr/local/sbin", "/usr/bin", "/usr/sbin"];
    folders.iter().any(|folder| Path::new(folder).join(program).is_file())
}

fn start(kind: Kind) -> Result<Engine, String> {
    let dir = open_folder();
    let is_root = rustix::process::geteuid().is_root();
    let engines = match kind {
        Kind::Docker => docker(dir.path(), is_root)?,
        Kind::Podman if !is_root => return Err("the engine needs root".to_owned()),
        Kind::Podman => podman(dir.path(), &[])?,
        Kind::RootlessPodman => rootless(dir.path(), is_root)?,
    };
    let mut engine = Engine {
        socket: dir.path().join("engine.sock"),
        dir,
        client: Vec::new(),
        server: Vec::new(),
        service: None,
        kind,
    };
    let (tar, mut last) = (image(&[]), String::new());
    for (client, server) in engines {
        (engine.client, engine.server) = (client, server);
        engine.serve();
        match engine.try_image(&tar) {
            Ok(()) => return Ok(engine),
            Err(error) => last = error,
        }
        engine.stop();
    }
    Err(last)
}

/// A client, and the server that it talks to.
type Pair = (Vec<String>, Vec<String>);

/// Returns the command lines of a separate Docker engine without a network: the machine's engine may belong to anyone.
fn docker(dir: &Path, is_root: bool) -> Result<Vec<Pair>, String> {
    if !is_root {
        return Err("the engine needs root".to_owned());
    }
    if !is_installed("dockerd") || !is_installed("docker") {
        return Err("the engine is not installed; run: make test-containers".to_owned());
    }
    let path = |name: &str| dir.join(name).display().to_string();
    let host = format!("unix://{}", path("engine.sock"));
    let server = ["--data-root", &path("data"), "--exec-root", &path("exec"), "--pidfile", &path("pid")];
    let alone =
        ["--bridge=none", "--iptables=false", "--storage-driver=vfs", "--exec-opt", "native.cgroupdriver=cgroupfs"];
    Ok(vec![(
        words(&["docker", "--host", &host]),
        words(&[&["dockerd", "--host", &host], &server[..], &alone].concat()),
    )])
}

/// Returns the command lines of Podman with each runtime: the control groups of some machines work with only one.
fn podman(dir: &Path, before: &[&str]) -> Result<Vec<Pair>, String> {
    if !is_installed("podman") {
        return Err("the engine is not installed; run: make test-containers".to_owned());
    }
    let address = format!("unix://{}", dir.join("engine.sock").display());
    // Leave the machine's own images and containers alone.
    let storage = |name: &str| dir.join(name).display().to_string();
    let (root, run) = (storage("storage"), storage("runroot"));
    let own = ["--root", &root, "--runroot", &run, "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"];
    let pair = |runtime: &&str| {
        let client = [before, &["podman", "--runtime", runtime], &own[..]].concat();
        let server = [&client[..], &["system", "service", "--time=0", &address]].concat();
        (words(&client), words(&server))
    };
    Ok(["crun", "runc"].iter().filter(|runtime| is_installed(runtime)).map(pair).collect())
}

fn rootless(dir: &Path, is_root: bool) -> Result<Vec<Pair>, String> {
    if !is_installed("newuidmap") {
        return Err("newuidmap is not installed; run: make test-containers".to_owned());
    }
    let path = |name: &str| dir.join(name).display().to_string();
    for name in ["home", "run"] {
        std::fs::create_dir(dir.join(name)).unwrap();
    }
    let variables = [format!("HOME={}", path("home")), format!("XDG_RUNTIME_DIR={}", path("run"))];
    let own = ["env", "-i", &variables[0], &variables[1], "PATH=/usr/sbin:/usr/bin:/sbin:/bin"];
    if !is_root {
        return podman(dir, &own);
    }
    let has_user = std::fs::read_to_string("/etc/subuid").is_ok_and(|text| text.contains(&format!("{USER}:")));
    if !has_user {
        return Err(format!("there is no user {USER} with subordinate IDs; run: make test-containers"));
    }
    let changed = Command::new("chown").args(["-R", &format!("{USER}:{USER}")]).arg(dir).status().unwrap();
    assert!(changed.success());
    podman(dir, &[&AS_USER[..], &own].concat())
}

/// Sends a request; returns the status and the body of the answer, or `None` if there is no answer.
fn answer(socket: &Path, method: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.write_all(format!("{method} {path} HTTP/1.0\r\nHost: x\r\n\r\n").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// Returns the containers of an engine, in any state.
fn list(socket: &Path, more: &str) -> Vec<Value> {
    let answer = answer(socket, "GET", &format!("/v1.40/containers/json?all=true{more}"));
    answer.and_then(|(_, body)| serde_json::from_str(&body).ok()).unwrap_or_default()
}

/// The words before a command that make it run as [`USER`].
const AS_USER: [&str; 7] = ["setpriv", "--reuid", USER, "--regid", USER, "--init-groups", "--"];

impl Engine {
    /// Returns a command of the client.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.client[0]);
        command.args(&self.client[1..]).args(arguments).current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Starts the server, also after [`Engine::stop`].
    pub(super) fn serve(&mut self) {
        // A killed server leaves its socket behind.
        let _ = std::fs::remove_file(&self.socket);
        let mut server = Command::new(&self.server[0]);
        let log = std::fs::File::options().create(true).append(true).open(self.dir.path().join("log")).unwrap();
        // Rootless Podman is two processes. Its user may have no access to the working directory of the tests.
        server
            .args(&self.server[1..])
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        self.service = Some(server.spawn().unwrap());
        // If this fails, the engine's log is printed when the engine is dropped.
        until(&format!("{:?} serves", self.kind), || {
            answer(&self.socket, "GET", "/_ping").filter(|(status, _)| *status == 200)
        });
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Kills the server; containers continue to run.
    pub(super) fn stop(&mut self) {
        let mut service = self.service.take().unwrap();
        kill_process_group(Pid::from_child(&service), Signal::KILL).unwrap();
        service.wait().unwrap();
        // Docker's helper ends with the server; until the helper is reaped, the next server would consider it alive.
        let helper = self.dir.path().join("exec/containerd/containerd.pid");
        if let Ok(number) = std::fs::read_to_string(&helper) {
            let pid = Pid::from_raw(number.trim().parse().unwrap()).unwrap();
            let _ = kill_process(pid, Signal::KILL);
            std::fs::remove_file(helper).unwrap();
        }
    }

    fn try_image(&self, tar: &[u8]) -> Result<(), String> {
        self.import(IMAGE, "ENV FLAVOUR=plain", tar)?;
        let run =
            ["run", "--rm", "--network=none", "--ulimit=nofile=1024", "--ulimit=nproc=1024", IMAGE, "sh", "-c", ":"];
        let output = self.command(&run).stderr(Stdio::piped()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if output.status.success() { Ok(()) } else { Err(format!("the engine runs no container: {error}")) }
    }

    /// Makes an image from a tar.
    pub(super) fn import(&self, name: &str, change: &str, tar: &[u8]) -> Result<(), String> {
        let mut command = self.command(&["import", "--change", change, "-", name]);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // An engine that fails does not read to the end.
        let _ = child.stdin.take().unwrap().write_all(tar);
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if output.status.success() { Ok(()) } else { Err(format!("the engine cannot import the image: {error}")) }
    }

    /// Returns the states, such as `running`, of the containers whose description names a folder.
    pub(super) fn states(&self, folder: &Path) -> Vec<String> {
        let filter = "%7B%22label%22%3A%5B%22journeyman.owner%22%5D%7D";
        let folder = folder.to_str().unwrap();
        let all = list(&self.socket, &format!("&filters={filter}"));
        let own = all.iter().filter(|container| container.to_string().contains(folder));
        own.map(|container| container["State"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns the command that runs other commands as the engine's user.
    pub(super) fn wrapper(&self) -> Command {
        let mut command = Command::new("env");
        if self.kind == Kind::RootlessPodman && rustix::process::geteuid().is_root() {
            command.args(AS_USER);
        }
        command
    }

    /// Gives a folder to the engine's user.
    pub(super) fn change_owner(&self, folder: &Path) {
        if self.kind == Kind::RootlessPodman && rustix::process::geteuid().is_root() {
            let owner = format!("{USER}:{USER}");
            assert!(Command::new("chown").args(["-R", &owner]).arg(folder).status().unwrap().success());
        }
    }
}
