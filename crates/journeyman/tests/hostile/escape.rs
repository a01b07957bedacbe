//! Attempts to escape from a sandbox. Each must fail in a sandbox. Where possible, a control checks that the attack
//! succeeds without one: the failure of an attack that never succeeds would prove nothing.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};

use crate::program::fixtures::{Site, site_with};

/// The condition under which an attack succeeds without a sandbox.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Control {
    /// The attack always succeeds.
    Works,
    /// The attack succeeds if the service runs as root.
    WorksAsRoot,
    /// The target of the attack does not exist on every machine, so there is no control.
    None,
}

use Control::{None as Unknown, Works, WorksAsRoot};

/// The system calls in the commands of [`ATTACKS`], with their numbers, which depend on the architecture.
const SYSTEM_CALLS: [(&str, libc::c_long); 8] = [
    ("SYS_bpf", libc::SYS_bpf),
    ("SYS_io_uring_setup", libc::SYS_io_uring_setup),
    ("SYS_ioctl", libc::SYS_ioctl),
    ("SYS_keyctl", libc::SYS_keyctl),
    ("SYS_open_by_handle_at", libc::SYS_open_by_handle_at),
    ("SYS_perf_event_open", libc::SYS_perf_event_open),
    ("SYS_ptrace", libc::SYS_ptrace),
    ("SYS_userfaultfd", libc::SYS_userfaultfd),
];

/// Attacks: a name, the control without a sandbox, and a shell command that succeeds if the attack does. Names in
/// [`SYSTEM_CALLS`] stand for the numbers there.
const ATTACKS: &[(&str, Control, &str)] = &[
    // Data of the service and the host.
    ("the environment of the first process", Unknown, "grep -qa s3cret-planted /proc/1/environ"),
    ("the environment of all processes", Works, "cat /proc/[0-9]*/environ 2>/dev/null | grep -qa s3cret-planted"),
    ("the database", Works, "head -c 1 $DIR/data/journeyman.db | grep -q ."),
    ("the master key", Works, "grep -q . $DIR/data/master.key"),
    ("other workspaces", Works, "ls $DIR/data/workspaces/*/tree"),
    ("repositories of the code host", Works, "ls $DIR/data/repositories/shop.git/HEAD"),
    ("files of the host", Works, "grep -q . $DIR/people/README.md"),
    ("password hashes", WorksAsRoot, "head -c 1 /etc/shadow | grep -q ."),
    ("a descriptor that the service was started with", Works, "cat <&9 | grep -q s3cret-open"),
    // Files and settings that a sandbox must not write.
    ("a file in /usr", WorksAsRoot, "touch /usr/.hostile && rm /usr/.hostile"),
    ("a file in /etc", WorksAsRoot, "touch /etc/.hostile && rm /etc/.hostile"),
    ("a file in /dev", WorksAsRoot, "touch /dev/.hostile && rm /dev/.hostile"),
    ("a file in /run", WorksAsRoot, "touch /run/.hostile && rm /run/.hostile"),
    (
        "a setting of the kernel",
        Unknown,
        "cat /proc/sys/kernel/core_pattern > ~/p && cat ~/p > /proc/sys/kernel/core_pattern",
    ),
    ("a mount", WorksAsRoot, "mkdir -p ~/m && mount -t tmpfs none ~/m && umount ~/m"),
    ("a setuid file of root", WorksAsRoot, "cp /bin/true ~/s && chown 0:0 ~/s && chmod u+s ~/s"),
    // Namespaces and processes.
    ("a user namespace", Works, "unshare --user true"),
    ("a namespace of a process", WorksAsRoot, "nsenter --target $SERVICE --net true"),
    ("a signal to the service", Works, "kill -0 $SERVICE"),
    (
        "a trace of the service",
        WorksAsRoot,
        "perl -e 'exit(syscall(SYS_ptrace, 0x4206, $ENV{SERVICE} + 0, 0, 0) == 0 ? 0 : 1)'",
    ),
    (
        "a trace of the first process",
        Unknown,
        "[ $SANDBOX = none ] || perl -e 'exit(syscall(SYS_ptrace, 0x4206, 1, 0, 0) == 0 ? 0 : 1)'",
    ),
    ("the memory of the first process", Unknown, "[ $SANDBOX = none ] || head -c 1 /proc/1/mem || ls -l /proc/1/exe"),
    // The kernel.
    ("a socket to the hypervisor", Unknown, "perl -e 'exit(socket(S, 40, 1, 0) ? 0 : 1)'"),
    ("packet sockets", WorksAsRoot, "perl -e 'exit(socket(S, 17, 3, 0) ? 0 : 1)'"),
    ("raw sockets", WorksAsRoot, "perl -e 'exit(socket(S, 2, 3, 1) ? 0 : 1)'"),
    ("the kernel's crypto API", Unknown, "perl -e 'exit(socket(S, 38, 5, 0) ? 0 : 1)'"),
    (
        "protocols other than TCP and UDP",
        Unknown,
        "perl -e 'exit(socket(S, 2, 1, 262) || socket(S, 2, 2, 136) || socket(S, 2, 1, 132) || socket(S, 2, 2, 1) ? 0 : 1)'",
    ),
    ("netlink beyond routes", Works, "perl -e 'exit(socket(S, 16, 3, 9) || socket(S, 16, 3, 15) ? 0 : 1)'"),
    ("io_uring", Works, "perl -e 'syscall(SYS_io_uring_setup, 1, 0); exit($! == 38 ? 1 : 0)'"),
    ("keyrings", Works, "perl -e 'syscall(SYS_keyctl, 0, -3, 0); exit($! == 38 ? 1 : 0)'"),
    ("BPF", Works, "perl -e 'syscall(SYS_bpf, 0, 0, 0); exit($! == 38 ? 1 : 0)'"),
    ("userfaultfd", Works, "perl -e 'syscall(SYS_userfaultfd, 0); exit($! == 38 ? 1 : 0)'"),
    ("perf events", Works, "perl -e 'syscall(SYS_perf_event_open, 0, 0, 0, 0, 0); exit($! == 38 ? 1 : 0)'"),
    ("file handles", Works, "perl -e 'syscall(SYS_open_by_handle_at, 0, 0, 0); exit($! == 38 ? 1 : 0)'"),
    ("input to a terminal", Works, "perl -e 'syscall(SYS_ioctl, 0, 0x5412, 0); exit($! == 38 ? 1 : 0)'"),
    #[cfg(target_arch = "x86_64")]
    ("32-bit system calls", Unknown, "sh -c ~/elf32 2>/dev/null; [ $? = 42 ]"),
    #[cfg(target_arch = "x86_64")]
    ("x32 system calls", Unknown, "perl -e 'exit(syscall(0x40000027) > 0 ? 0 : 1)'"),
    // The network.
    (
        "the host's loopback",
        Works,
        "perl -MIO::Socket::INET -e 'exit(IO::Socket::INET->new(PeerAddr => \"127.0.0.1:$ENV{PORT}\") ? 0 : 1)'",
    ),
    (
        "the service itself",
        Works,
        "perl -MIO::Socket::INET -e '($a) = $ENV{URL} =~ m{//(.*)}; exit(IO::Socket::INET->new(PeerAddr => $a) ? 0 : 1)'",
    ),
    (
        "the address of the metadata service",
        Unknown,
        "perl -MIO::Socket::INET -e 'exit(IO::Socket::INET->new(PeerAddr => \"169.254.169.254:80\", Timeout => 2) ? 0 : 1)'",
    ),
    (
        "UDP to the host's loopback",
        Works,
        "perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Proto => \"udp\", PeerAddr => \"127.0.0.1:$ENV{UDP}\") or exit 1; $s->send(\"x\"); select undef, undef, undef, 0.2; $s->send(\"x\") or exit 1'",
    ),
    (
        "a socket in the file system",
        Works,
        "perl -MIO::Socket::UNIX -e 'exit(IO::Socket::UNIX->new(Peer => \"$ENV{DIR}/sock\") ? 0 : 1)'",
    ),
    (
        "a socket with an abstract name",
        Works,
        "perl -MIO::Socket::UNIX -e 'exit(IO::Socket::UNIX->new(Peer => \"\\0$ENV{ABSTRACT}\") ? 0 : 1)'",
    ),
    (
        "an inherited descriptor",
        Unknown,
        "[ $SANDBOX = none ] || ls -l /proc/self/fd /proc/$PPID/fd | grep -v 'pipe:\\|/dev/null\\|/proc/\\|eventpoll\\|eventfd\\|/workspace\\|/home/agent\\|total\\|^$'",
    ),
];

/// Returns a 32-bit x86 program that exits with 42: an ELF header (elf(5)), and `mov eax, 1; mov ebx, 42; int 0x80`.
fn program_for_32_bits() -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let code = [0xb8, 1, 0, 0, 0, 0xbb, 42, 0, 0, 0, 0xcd, 0x80];
    let base = 0x0804_8000;
    let mut file = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0".to_vec();
    file.extend(words(&[1, base + 84, 52, 0, 0]));
    file.extend([52, 0, 32, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    file.extend(words(&[1, 0, base, base, 96, 96, 5, 0x1000]));
    file.extend(code);
    file
}

/// Tries all attacks in a kind of sandbox; returns the site, and whether each attack succeeded.
fn try_attacks(sandbox: &str) -> (Site, BTreeMap<String, bool>) {
    let site = site_with(&format!("sandbox = \"{sandbox}\"\n"));
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let _named = UnixListener::bind(site.path("sock")).unwrap();
    std::fs::set_permissions(site.path("sock"), std::fs::Permissions::from_mode(0o777)).unwrap();
    let abstract_name = format!("journeyman-hostile-{}-{sandbox}", std::process::id());
    let _unnamed = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name).unwrap()).unwrap();
    let port = tcp.local_addr().unwrap().port();
    // The kernel accepts connections to these sockets, although no program answers.
    let mut script = String::new();
    for (number, (_, _, command)) in ATTACKS.iter().enumerate() {
        let mut command = (*command).to_owned();
        for (name, call) in SYSTEM_CALLS {
            command = command.replace(name, &call.to_string());
        }
        script.push_str(&format!(
            "( {command} ) > ~/said 2>&1 && echo through {number} >> ~/results || echo held {number} >> ~/results\n"
        ));
    }
    let text: String = program_for_32_bits().iter().map(|byte| format!("\\{byte:03o}")).collect();
    let begin = format!("printf '{text}' > ~/elf32; chmod 755 ~/elf32\n");
    site.people_commit("attack.sh", &format!("{begin}{script}"));
    // Start the service with an open file, as a shell may.
    std::fs::write(site.path("open"), "s3cret-open\n").unwrap();
    let mut wrapper = std::process::Command::new("sh");
    wrapper.args(["-c", "exec 9<\"$0\"; exec \"$@\""]).arg(site.path("open")).env("PLANTED", "s3cret-planted");
    let service = site.start_wrapped(wrapper);
    let variables = [
        ("DIR", site.dir.path().display().to_string()),
        ("SERVICE", service.id().to_string()),
        ("SANDBOX", sandbox.to_owned()),
        ("PORT", port.to_string()),
        ("UDP", udp.local_addr().unwrap().port().to_string()),
        ("ABSTRACT", abstract_name),
        ("URL", service.url.clone()),
    ];
    let variables: serde_json::Map<_, _> =
        variables.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let (status, body) =
        service.call("PATCH", "/v2/projects/shop", Some(serde_json::json!({ "environment": variables })));
    assert_eq!(status, 200, "{body}");
    let job = service.create("[[run sh attack.sh]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let home = site.path(&format!("data/workspaces/{}/home", job.rsplit('/').next().unwrap()));
    let mut results = String::new();
    std::fs::File::open(home.join("results")).unwrap().read_to_string(&mut results).unwrap();
    let results: BTreeMap<String, bool> = results
        .lines()
        .map(|line| {
            let (what, number) = line.split_once(' ').unwrap();
            (ATTACKS[number.parse::<usize>().unwrap()].0.to_owned(), what == "through")
        })
        .collect();
    assert_eq!(results.len(), ATTACKS.len(), "some attacks were not tried: {results:#?}");
    let planted = home.join("s");
    let owner = planted.symlink_metadata().map_or(u32::MAX, |note| note.uid());
    assert!(sandbox == "none" || owner != 0, "an attack left a file of root on the host");
    (site, results)
}

#[test]
fn no_attack_succeeds_in_a_sandbox() {
    let (_site, results) = try_attacks("bubblewrap");
    let through: Vec<_> = results.iter().filter(|(_, through)| **through).map(|(name, _)| name).collect();
    assert!(through.is_empty(), "{through:#?}");
}

#[test]
fn control_attacks_succeed_without_a_sandbox() {
    let (_site, results) = try_attacks("none");
    let is_root = rustix::process::geteuid().is_root();
    let works = |control: Control| control == Works || control == WorksAsRoot && is_root;
    let failed: Vec<_> =
        ATTACKS.iter().filter(|(name, control, _)| works(*control) && !results[*name]).map(|(name, ..)| name).collect();
    assert!(failed.is_empty(), "these attacks prove nothing: {failed:#?}");
}
