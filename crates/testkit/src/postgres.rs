//! A PostgreSQL server for tests, run from the programs of Debian's package `postgresql`.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::patience::{PATIENCE, until, until_async};

/// The shell script that runs the server. When its standard input is closed, even because the tests were killed, it
/// stops the server and removes its files.
///
/// A stopping server waits for connections that it accepts meanwhile and that then send nothing, because they were cut, up
/// to `authentication_timeout`: a minute, as in an installation. PostgreSQL sends no signal to the processes of such
/// connections.
const KEEPER: &str = r#"
    "$1/postgres" -D "$2/data" -p "$3" -k "$2" -c listen_addresses=127.0.0.1 -c max_connections=200 $4 >>"$2/log" 2>&1 &
    server=$!
    while read -r order; do
        case $order in
            crash) kill -QUIT $server; wait $server; echo down ;;
            stop) kill -INT $server; wait $server; echo down ;;
        esac
    done
    kill -QUIT $server 2>/dev/null
    wait $server
    [ "$5" = keep ] || rm -rf "$2"
"#;

/// A running server.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    dir: PathBuf,
    port: u16,
    options: &'static str,
    /// `keep` if the script leaves the files of the server. A shared server is never dropped, so its script removes
    /// them.
    files: &'static str,
    user: Option<(u32, u32)>,
    keeper: Mutex<Option<Keeper>>,
    databases: AtomicU64,
    /// The database that [`Postgres::migrated`] copies, after the first call.
    template: tokio::sync::OnceCell<String>,
}

#[derive(Debug)]
struct Keeper {
    orders: Option<ChildStdin>,
    shell: Child,
}

impl Postgres {
    /// Returns the server that all tests of a program share. It is fast because it does not sync its files. Its data
    /// would not survive a failure of the machine, which does not matter for tests in which only processes crash.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(|| Self::start("-c fsync=off -c synchronous_commit=off -c full_page_writes=off", "remove"))
    }

    /// Starts a server that can be stopped and started, and is as durable as in an installation.
    #[must_use]
    pub fn durable() -> Self {
        Self::start("", "keep")
    }

    /// Starts a synchronous standby of this server.
    #[must_use]
    pub fn standby(&self) -> Self {
        let standby = Self::prepare("", "keep");
        let mut copy = standby.command("pg_basebackup");
        copy.args(["--checkpoint=fast", "--write-recovery-conf", "--no-sync", "--wal-method=stream", "-D"]);
        copy.arg(standby.dir.join("data")).arg("-d");
        copy.arg(format!("host=127.0.0.1 port={} user=journeyman application_name=standby", self.port));
        let made = copy.output().unwrap();
        assert!(made.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&made.stderr));
        standby.up();
        self.wait_for_standbys("standby");
        standby
    }

    /// Makes each commit wait for the standby with this name from now on, or for none if the name is empty.
    pub fn wait_for_standbys(&self, name: &str) {
        self.sql("postgres", &format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'"));
        self.sql("postgres", "SELECT pg_reload_conf()");
        let followed = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        let expected = if name.is_empty() { "0" } else { "1" };
        until("the standby follows", || (self.sql("postgres", followed) == expected).then_some(()));
    }

    /// Promotes a standby to primary.
    pub fn promote(&self) {
        let promote = format!("SELECT pg_promote(true, {})", PATIENCE.as_secs());
        assert_eq!(self.sql("postgres", &promote), "t");
    }

    fn start(options: &'static str, files: &'static str) -> Self {
        let server = Self::prepare(options, files);
        let mut make = server.command("initdb");
        make.args(["--auth=trust", "--no-sync", "--username=journeyman", "--encoding=UTF8", "--locale=C", "-D"]);
        let made = make.arg(server.dir.join("data")).output().unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        server.up();
        server
    }

    /// Prepares a folder and a port, without starting a server.
    fn prepare(options: &'static str, files: &'static str) -> Self {
        let programs = programs();
        let dir = tempfile::Builder::new().prefix("journeyman-postgres-").tempdir().unwrap().keep();
        // PostgreSQL refuses to run as root.
        let user = rustix::process::geteuid().is_root().then(unprivileged_user);
        if let Some((uid, gid)) = user {
            chown(&dir, Some(uid), Some(gid)).unwrap();
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let keeper = Mutex::new(None);
        Self {
            programs,
            dir,
            port,
            options,
            files,
            user,
            keeper,
            databases: AtomicU64::new(0),
            template: tokio::sync::OnceCell::new(),
        }
    }

    /// Creates an empty database, and returns its URL.
    pub fn database(&self) -> String {
        self.create("")
    }

    /// Creates a database with the current schema, and returns its URL. `migrate` makes the schema in the first database,
    /// which all later ones copy.
    pub async fn migrated(&self, migrate: impl AsyncFnOnce(&str)) -> String {
        let template = self.template.get_or_init(async || {
            let url = self.database();
            migrate(&url).await;
            let name = url.rsplit('/').next().unwrap().to_owned();
            // A database with a session cannot be copied. The task of the last one ends while this one waits.
            self.sql("postgres", &format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false"));
            let sessions = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'");
            until_async("the end of all sessions", async || (self.sql("postgres", &sessions) == "0").then_some(()))
                .await;
            name
        });
        self.create(&format!("TEMPLATE {}", template.await))
    }

    fn create(&self, options: &str) -> String {
        let name = format!("d{}", self.databases.fetch_add(1, Ordering::SeqCst));
        self.sql("postgres", &format!("CREATE DATABASE {name} {options}"));
        self.url(&name)
    }

    /// Returns the URL of a database.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://journeyman@127.0.0.1:{}/{database}", self.port)
    }

    /// Returns the port of the server on this machine.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Runs a statement with `psql`, and returns its output.
    pub fn sql(&self, database: &str, statement: &str) -> String {
        let mut psql = self.command("psql");
        psql.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", statement, &self.url(database)]);
        let ran = psql.output().unwrap();
        assert!(ran.status.success(), "{statement}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    }

    /// Returns what `pg_dump` writes about a database, with these options.
    #[must_use]
    pub fn dump(&self, database: &str, options: &[&str]) -> String {
        let dumped = self.command("pg_dump").args(options).arg(self.url(database)).output().unwrap();
        assert!(dumped.status.success(), "pg_dump: {}", String::from_utf8_lossy(&dumped.stderr));
        String::from_utf8(dumped.stdout).unwrap()
    }

    /// Stops the server at once, as in a crash: uncommitted changes are lost.
    pub fn crash(&self) {
        self.down("crash\n");
    }

    /// Stops the server after closing its connections.
    pub fn stop(&self) {
        self.down("stop\n");
    }

    fn down(&self, order: &str) {
        use std::io::Write;
        let mut keeper = self.keeper.lock().unwrap();
        let Some(mut keeper) = keeper.take() else { panic!("the server is down") };
        keeper.orders.as_mut().unwrap().write_all(order.as_bytes()).unwrap();
        let mut done = [0; 5];
        keeper.shell.stdout.as_mut().unwrap().read_exact(&mut done).unwrap();
        keeper.end();
    }

    /// Starts the server, or starts it again, and waits until it accepts connections.
    pub fn up(&self) {
        let mut shell = self.wrapped("sh");
        let (programs, dir) = (&self.programs, &self.dir);
        shell
            .args(["-c", KEEPER, "sh"])
            .arg(programs)
            .arg(dir)
            .arg(self.port.to_string())
            .args([self.options, self.files]);
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let orders = shell.stdin.take();
        *self.keeper.lock().unwrap() = Some(Keeper { orders, shell });
        let deadline = Instant::now() + PATIENCE;
        while !self.answers() {
            let log = || std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "PostgreSQL did not start: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn answers(&self) -> bool {
        if TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            return false;
        }
        let mut ask = self.command("pg_isready");
        ask.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]).status().unwrap().success()
    }

    fn command(&self, program: &str) -> Command {
        self.wrapped(&self.programs.join(program).to_string_lossy())
    }

    fn wrapped(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.dir);
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }
}

impl Keeper {
    fn end(mut self) {
        drop(self.orders.take());
        let _ = self.shell.wait();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.lock().unwrap().take() {
            keeper.end();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Returns the folder with the programs of the newest installed server, as Debian installs them.
fn programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|entry| entry.path()).filter(|path| path.join("bin/initdb").exists()).max_by_key(number);
    newest.expect("PostgreSQL is not installed; run: make setup-test").join("bin")
}

/// Returns the user and group IDs for the server: those of the user that Debian's package creates, or else of the user
/// `nobody`.
fn unprivileged_user() -> (u32, u32) {
    let users = std::fs::read_to_string(Path::new("/etc/passwd")).unwrap();
    let find = |name: &str| {
        let fields: Vec<&str> = users
            .lines()
            .map(|line| line.split(':'))
            .find_map(|mut fields| (fields.next() == Some(name)).then(|| fields.collect()))?;
        Some((fields[1].parse().ok()?, fields[2].parse().ok()?))
    };
    find("postgres").or_else(|| find("nobody")).expect("the user postgres or nobody exists")
}
