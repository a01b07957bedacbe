//! The first program inside a sandbox: `journeyman sandbox-shim`.
//!
//! It is process 1 of its namespace. It learns what to start from a socket, at its input or at a path, so that neither its arguments nor its
//! environment hold anything; opens the listeners of the sandbox's loopback and gives them to the service, which so
//! needs no path into the sandbox; takes away from itself what programs have no use for; starts the one program, and
//! reaps whatever is left behind. With its end the kernel ends everything in the namespace.

mod confine;
mod syscalls;
mod wire;

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, WaitOptions, wait};

use crate::inspect;
pub(crate) use wire::{Answer, Pass, Plan, converse};

/// The exit code of a sandbox whose service is gone.
const GONE: u8 = 1;

/// Enough to wait with.
const EAR_STACK_BYTES: usize = 64 << 10;

/// The argument that makes this program the shim.
pub(crate) const SUBCOMMAND: &str = "sandbox-shim";

/// Runs as the program that a sandbox has inside, if the arguments say so; they are those of the program, without its
/// name. To be asked before anything else begins: there must be one thread, and no descriptor but the standard streams
/// and those inherited.
pub fn run_if_asked(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let asked = arguments.next()?;
    if asked == inspect::SUBCOMMAND {
        return Some(inspect::run(arguments.next()?.to_str()?));
    }
    if asked != SUBCOMMAND {
        return None;
    }
    Some(match serve(arguments.next()) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: the sandbox could not be set up: {error}");
            ExitCode::FAILURE
        }
    })
}

/// The service's end of the socket is where others have their input, or at the path that is given.
fn serve(door: Option<OsString>) -> io::Result<u8> {
    // Whatever the service was started with stays outside.
    // SAFETY: the call only marks descriptors; none is used or closed here.
    #[expect(unsafe_code, reason = "the call has no safe form")]
    let marked = unsafe { libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC.cast_signed()) };
    if marked != 0 {
        return Err(io::Error::last_os_error());
    }
    let is_container = door.is_some();
    let mut service = match door {
        Some(path) => UnixStream::connect(path)?,
        None => UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?),
    };
    let plan: Plan = wire::read(&mut service)?;
    let listeners = listen(&plan.listen)?;
    let sockets: Vec<BorrowedFd<'_>> = listeners.iter().map(AsFd::as_fd).collect();
    wire::hello(&service, &sockets)?;
    let Pass { streams, doors } = wire::wait_for_go(&service)?;
    for mut door in doors {
        door.write_all(b"0")?;
    }
    drop(listeners);
    let child = match start(&plan, streams) {
        Ok(child) => child,
        Err(error) => {
            let not_found = error.kind() == io::ErrorKind::NotFound;
            wire::write(&mut service, &Answer::Failed { not_found, detail: error.to_string() })?;
            return Ok(127);
        }
    };
    wire::write(&mut service, &Answer::Started)?;
    if !is_container {
        // The other back end ends with the service by itself.
        drop(service);
        return reap_until(child);
    }
    let ear = service.try_clone()?;
    std::thread::Builder::new().stack_size(EAR_STACK_BYTES).spawn(move || end_with(ear))?;
    let code = reap_until(child)?;
    // It may be gone.
    let _ = service.write_all(&[code]);
    Ok(code)
}

/// Ends the sandbox when the service does, which says nothing more.
fn end_with(mut service: UnixStream) {
    let _ = service.read(&mut [0]);
    std::process::exit(GONE.into());
}

fn listen(ports: &[u16]) -> io::Result<Vec<TcpListener>> {
    ports.iter().map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port))).collect()
}

fn start(plan: &Plan, [stdin, stdout, stderr]: [OwnedFd; 3]) -> io::Result<Pid> {
    confine::apply(plan).map_err(|error| io::Error::other(error.to_string()))?;
    let (program, arguments) = plan.argv.split_first().ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(&plan.environment).current_dir(&plan.directory);
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    let child = command.spawn()?;
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| io::Error::other("a process without a number"))
}

/// Waits for the program, and for orphans meanwhile; its exit code, as shells give it.
fn reap_until(child: Pid) -> io::Result<u8> {
    loop {
        let Some((pid, status)) = wait(WaitOptions::empty())? else { continue };
        if pid != child {
            continue;
        }
        let code = status.exit_status().or_else(|| Some(128 + status.terminating_signal()?)).unwrap_or(1);
        return Ok(u8::try_from(code).unwrap_or(1));
    }
}
