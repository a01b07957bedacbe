//! The system calls that programs in a sandbox have, by a filter of the kernel (seccomp(2)). All others fail with
//! `ENOSYS`, so that a library can fall back. Some arguments of the listed calls are refused, with the error that a
//! kernel without the feature returns ([`refusals`]).
//!
//! Invariant: a call that is not listed here is not available, including calls of other ABIs (32 bit, x32). The list is
//! what compilers, interpreters, debuggers and test suites use; it is close to that of container engines, without the
//! calls that need privileges. Deliberately missing, because the kernel had vulnerabilities in them or because they
//! reach out of the sandbox: io_uring, BPF, keyrings, userfaultfd, perf events, mounts, namespaces, file handles, and
//! every family of sockets except Unix, IPv4, IPv6 and netlink's routing.

mod refusals;

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

/// An error from building or installing the filter.
#[derive(Debug, thiserror::Error)]
pub(super) enum FilterError {
    #[error("the filter could not be built: {0}")]
    Made(#[from] BackendError),
    #[error("the filter could not be installed: {0}")]
    Set(#[from] Error),
}

/// Installs the filters for this thread and all threads and processes that it starts. Also gives up any later gain of
/// privileges (`no_new_privs`). `may_allocate` is `true` if programs may allocate disk space without writing to it.
pub(super) fn apply(may_allocate: bool) -> Result<(), FilterError> {
    // If several filters refuse a call, the error of the one that was installed last counts.
    let refusals = refusals::programs(may_allocate)?;
    apply_filter(&program()?)?;
    Ok(refusals.iter().try_for_each(|filter| apply_filter(filter))?)
}

fn program() -> Result<BpfProgram, BackendError> {
    compile(rules()?, errno(libc::ENOSYS), SeccompAction::Allow)
}

/// Returns the filter with an action for the calls that match a rule, and one for all others.
fn compile(
    rules: BTreeMap<c_long, Vec<SeccompRule>>,
    others: SeccompAction,
    matching: SeccompAction,
) -> Result<BpfProgram, BackendError> {
    SeccompFilter::new(rules, others, matching, TargetArch::try_from(std::env::consts::ARCH)?)?.try_into()
}

fn errno(code: i32) -> SeccompAction {
    SeccompAction::Errno(code.unsigned_abs())
}

fn rules() -> Result<BTreeMap<c_long, Vec<SeccompRule>>, BackendError> {
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> =
        COMMON.iter().chain(OLDER).map(|call| (*call, vec![])).collect();
    rules.insert(libc::SYS_socket, sockets()?);
    rules.insert(libc::SYS_socketpair, vec![SeccompRule::new(vec![family(libc::AF_UNIX)?])?]);
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![argument(0, SeccompCmpOp::MaskedEq(NAMESPACES), 0)?])?]);
    // These insert input into a terminal that processes outside may read: `TIOCSTI`, and `TIOCLINUX` of the console
    // (ioctl_tty(2)).
    let not = |request| argument(1, SeccompCmpOp::Ne, request);
    rules.insert(libc::SYS_ioctl, vec![SeccompRule::new(vec![not(libc::TIOCSTI)?, not(libc::TIOCLINUX)?])?]);
    let personalities = [0, ADDR_NO_RANDOMIZE, 0xffff_ffff];
    let personalities = personalities.map(|value| SeccompRule::new(vec![argument(0, SeccompCmpOp::Eq, value)?]));
    rules.insert(libc::SYS_personality, personalities.into_iter().collect::<Result<_, _>>()?);
    Ok(rules)
}

/// The personality without address randomization, which debuggers set (personality(2)).
const ADDR_NO_RANDOMIZE: u64 = 0x0004_0000;

/// The flags of clone(2) that make namespaces.
const NAMESPACES: u64 = {
    let flags = libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET;
    flags.unsigned_abs() as u64
};

fn argument(index: u8, is: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, is, value)
}

fn family(family: i32) -> Result<SeccompCondition, BackendError> {
    argument(0, SeccompCmpOp::Eq, family.unsigned_abs().into())
}

/// Returns the rules of the sockets that programs may make: Unix sockets, TCP and UDP, and the routes of netlink, with
/// which libraries list interfaces and addresses.
fn sockets() -> Result<Vec<SeccompRule>, BackendError> {
    let protocol = |protocol: i32| argument(2, SeccompCmpOp::Eq, protocol.unsigned_abs().into());
    let mut rules = vec![
        SeccompRule::new(vec![family(libc::AF_UNIX)?])?,
        SeccompRule::new(vec![family(libc::AF_NETLINK)?, protocol(libc::NETLINK_ROUTE)?])?,
    ];
    for network in [libc::AF_INET, libc::AF_INET6] {
        for (kind, own) in [(libc::SOCK_STREAM, libc::IPPROTO_TCP), (libc::SOCK_DGRAM, libc::IPPROTO_UDP)] {
            for wanted in [libc::IPPROTO_IP, own] {
                let kind = argument(1, SeccompCmpOp::MaskedEq(SOCKET_KINDS), kind.unsigned_abs().into())?;
                rules.push(SeccompRule::new(vec![family(network)?, kind, protocol(wanted)?])?);
            }
        }
    }
    Ok(rules)
}

/// The bits of the second argument of socket(2) that are the type; the others are flags (`SOCK_TYPE_MASK` of the
/// kernel).
const SOCKET_KINDS: u64 = 0xf;

macro_rules! calls {
    ($($name:ident)*) => { &[$(numbers::$name),*] };
}

/// The numbers of the calls.
mod numbers {
    pub(super) use libc::*;

    /// `libc` has this number only for some architectures; all have the same
    /// (<https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git/tree/include/uapi/asm-generic/unistd.h>).
    #[expect(non_upper_case_globals, reason = "the names of the other numbers")]
    pub(super) const SYS_fchmodat2: c_long = 452;
}

/// The calls that every architecture has.
#[rustfmt::skip]
const COMMON: &[c_long] = calls!(
    SYS_accept SYS_accept4 SYS_adjtimex SYS_bind SYS_brk SYS_capget SYS_capset SYS_chdir SYS_clock_adjtime
    SYS_clock_getres SYS_clock_gettime SYS_clock_nanosleep SYS_close SYS_close_range SYS_connect SYS_copy_file_range
    SYS_dup SYS_dup3 SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd2 SYS_execve
    SYS_execveat SYS_exit SYS_exit_group SYS_faccessat SYS_faccessat2 SYS_fadvise64 SYS_fallocate SYS_fchdir SYS_fchmod
    SYS_fchmodat SYS_fchmodat2 SYS_fchown SYS_fchownat SYS_fcntl SYS_fdatasync SYS_fgetxattr SYS_flistxattr SYS_flock
    SYS_fremovexattr SYS_fsetxattr SYS_fstat SYS_fstatfs SYS_fsync SYS_ftruncate SYS_futex SYS_futex_waitv
    SYS_get_mempolicy SYS_get_robust_list SYS_getcpu SYS_getcwd SYS_getdents64 SYS_getegid SYS_geteuid SYS_getgid
    SYS_getgroups SYS_getitimer SYS_getpeername SYS_getpgid SYS_getpid SYS_getppid SYS_getpriority SYS_getrandom
    SYS_getresgid SYS_getresuid SYS_getrlimit SYS_getrusage SYS_getsid SYS_getsockname SYS_getsockopt SYS_gettid
    SYS_gettimeofday SYS_getuid SYS_getxattr SYS_inotify_add_watch SYS_inotify_init1 SYS_inotify_rm_watch SYS_io_cancel
    SYS_io_destroy SYS_io_getevents SYS_io_setup SYS_io_submit SYS_ioprio_get SYS_ioprio_set SYS_kill
    SYS_landlock_add_rule SYS_landlock_create_ruleset SYS_landlock_restrict_self SYS_lgetxattr SYS_linkat SYS_listen
    SYS_listxattr SYS_llistxattr SYS_lremovexattr SYS_lseek SYS_lsetxattr SYS_madvise SYS_mbind SYS_membarrier
    SYS_memfd_create SYS_mincore SYS_mkdirat SYS_mknodat SYS_mlock SYS_mlock2 SYS_mlockall SYS_mmap SYS_mprotect
    SYS_mq_getsetattr SYS_mq_notify SYS_mq_open SYS_mq_timedreceive SYS_mq_timedsend SYS_mq_unlink SYS_mremap SYS_msgctl
    SYS_msgget SYS_msgrcv SYS_msgsnd SYS_msync SYS_munlock SYS_munlockall SYS_munmap SYS_nanosleep SYS_newfstatat
    SYS_openat SYS_openat2 SYS_pidfd_getfd SYS_pidfd_open SYS_pidfd_send_signal SYS_pipe2 SYS_pkey_alloc SYS_pkey_free
    SYS_pkey_mprotect SYS_ppoll SYS_prctl SYS_pread64 SYS_preadv SYS_preadv2 SYS_prlimit64 SYS_process_vm_readv
    SYS_process_vm_writev SYS_pselect6 SYS_ptrace SYS_pwrite64 SYS_pwritev SYS_pwritev2 SYS_read SYS_readahead
    SYS_readlinkat SYS_readv SYS_recvfrom SYS_recvmmsg SYS_recvmsg SYS_remap_file_pages SYS_removexattr SYS_renameat
    SYS_renameat2 SYS_restart_syscall SYS_rseq SYS_rt_sigaction SYS_rt_sigpending SYS_rt_sigprocmask SYS_rt_sigqueueinfo
    SYS_rt_sigreturn SYS_rt_sigsuspend SYS_rt_sigtimedwait SYS_rt_tgsigqueueinfo SYS_sched_get_priority_max
    SYS_sched_get_priority_min SYS_sched_getaffinity SYS_sched_getattr SYS_sched_getparam SYS_sched_getscheduler
    SYS_sched_rr_get_interval SYS_sched_setaffinity SYS_sched_setattr SYS_sched_setparam SYS_sched_setscheduler
    SYS_sched_yield SYS_seccomp SYS_semctl SYS_semget SYS_semop SYS_semtimedop SYS_sendfile SYS_sendmmsg SYS_sendmsg
    SYS_sendto SYS_set_mempolicy SYS_set_robust_list SYS_set_tid_address SYS_setfsgid SYS_setfsuid SYS_setgid
    SYS_setgroups SYS_setitimer SYS_setpgid SYS_setpriority SYS_setregid SYS_setresgid SYS_setresuid SYS_setreuid
    SYS_setrlimit SYS_setsid SYS_setsockopt SYS_setuid SYS_setxattr SYS_shmat SYS_shmctl SYS_shmdt SYS_shmget
    SYS_shutdown SYS_sigaltstack SYS_signalfd4 SYS_splice SYS_statfs SYS_statx SYS_symlinkat SYS_sync
    SYS_sync_file_range SYS_syncfs SYS_sysinfo SYS_tee SYS_tgkill SYS_timer_create SYS_timer_delete
    SYS_timer_getoverrun SYS_timer_gettime SYS_timer_settime SYS_timerfd_create SYS_timerfd_gettime
    SYS_timerfd_settime SYS_times SYS_tkill SYS_truncate SYS_umask SYS_uname SYS_unlinkat SYS_utimensat SYS_vmsplice
    SYS_wait4 SYS_waitid SYS_write SYS_writev
);

/// The older calls that only x86-64 has, in addition to their successors.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLDER: &[c_long] = calls!(
    SYS_access SYS_alarm SYS_arch_prctl SYS_chmod SYS_chown SYS_creat SYS_dup2 SYS_epoll_create SYS_epoll_ctl_old
    SYS_epoll_wait SYS_epoll_wait_old SYS_eventfd SYS_fork SYS_futimesat SYS_get_thread_area SYS_getdents SYS_getpgrp
    SYS_inotify_init SYS_lchown SYS_link SYS_lstat SYS_mkdir SYS_mknod SYS_open SYS_pause SYS_pipe SYS_poll SYS_readlink
    SYS_rename SYS_rmdir SYS_select SYS_set_thread_area SYS_signalfd SYS_stat SYS_symlink SYS_time SYS_unlink SYS_utime
    SYS_utimes SYS_vfork
);

/// Other architectures never had the older calls.
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_reach_out_of_a_sandbox_are_not_listed() {
        let rules = rules().unwrap();
        for call in [
            libc::SYS_bpf,
            libc::SYS_clone3,
            libc::SYS_io_uring_setup,
            libc::SYS_keyctl,
            libc::SYS_mount,
            libc::SYS_open_by_handle_at,
            libc::SYS_perf_event_open,
            libc::SYS_setns,
            libc::SYS_unshare,
            libc::SYS_userfaultfd,
        ] {
            assert!(!rules.contains_key(&call), "{call}");
        }
        // An empty list of rules would allow every argument.
        for call in [libc::SYS_clone, libc::SYS_ioctl, libc::SYS_personality, libc::SYS_socket, libc::SYS_socketpair] {
            assert!(!rules[&call].is_empty(), "{call}");
        }
        // The kernel's limit of instructions (seccomp(2)).
        assert!(program().unwrap().len() < 4096);
    }

    /// Returns the code of the error of `call` in a thread with the filters; 0 if it succeeds.
    fn code(may_allocate: bool, call: impl FnOnce() -> c_long + Send + 'static) -> i32 {
        // A filter holds for the thread that installs it.
        let thread = std::thread::spawn(move || {
            apply(may_allocate).unwrap();
            let done = call();
            if done < 0 { std::io::Error::last_os_error().raw_os_error().unwrap() } else { 0 }
        });
        thread.join().unwrap()
    }

    #[test]
    #[expect(unsafe_code, reason = "raw system calls")]
    fn only_some_sockets_can_be_made_and_others_fail_as_if_the_kernel_lacked_them() {
        use libc::{EAFNOSUPPORT, EPROTONOSUPPORT};
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let (stream, datagram, raw) = (libc::SOCK_STREAM | flags, libc::SOCK_DGRAM | flags, libc::SOCK_RAW | flags);
        for (family, kind, protocol, expected) in [
            (libc::AF_UNIX, stream, 0, 0),
            (libc::AF_UNIX, datagram, 0, 0),
            (libc::AF_UNIX, libc::SOCK_SEQPACKET, 0, 0),
            (libc::AF_INET, stream, 0, 0),
            (libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP, 0),
            (libc::AF_INET, datagram, libc::IPPROTO_UDP, 0),
            (libc::AF_INET6, datagram, 0, 0),
            (libc::AF_INET6, stream, libc::IPPROTO_TCP, 0),
            (libc::AF_NETLINK, raw, libc::NETLINK_ROUTE, 0),
            (libc::AF_NETLINK, datagram, libc::NETLINK_ROUTE, 0),
            // Multipath TCP, which Go tries first for listeners.
            (libc::AF_INET, stream, libc::IPPROTO_MPTCP, EPROTONOSUPPORT),
            (libc::AF_INET6, stream, libc::IPPROTO_MPTCP, EPROTONOSUPPORT),
            (libc::AF_INET, stream, libc::IPPROTO_SCTP, EPROTONOSUPPORT),
            (libc::AF_INET, libc::SOCK_SEQPACKET, libc::IPPROTO_SCTP, EPROTONOSUPPORT),
            (libc::AF_INET, datagram, libc::IPPROTO_ICMP, EPROTONOSUPPORT),
            (libc::AF_INET6, datagram, libc::IPPROTO_ICMPV6, EPROTONOSUPPORT),
            (libc::AF_INET, datagram, libc::IPPROTO_UDPLITE, EPROTONOSUPPORT),
            // Datagram Congestion Control, type 6.
            (libc::AF_INET, 6 | flags, 33, EPROTONOSUPPORT),
            (libc::AF_INET, datagram, libc::IPPROTO_TCP, EPROTONOSUPPORT),
            (libc::AF_INET, stream, libc::IPPROTO_UDP, EPROTONOSUPPORT),
            (libc::AF_INET, raw, libc::IPPROTO_ICMP, EPROTONOSUPPORT),
            (libc::AF_INET, raw, libc::IPPROTO_TCP, EPROTONOSUPPORT),
            (libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_RAW, EPROTONOSUPPORT),
            // The old type of packet sockets.
            (libc::AF_INET, 10, 0, EPROTONOSUPPORT),
            (libc::AF_INET, 0, 0, EPROTONOSUPPORT),
            (libc::AF_NETLINK, raw, libc::NETLINK_AUDIT, EPROTONOSUPPORT),
            (libc::AF_NETLINK, raw, libc::NETLINK_KOBJECT_UEVENT, EPROTONOSUPPORT),
            (libc::AF_NETLINK, raw, libc::NETLINK_NETFILTER, EPROTONOSUPPORT),
            (libc::AF_PACKET, raw, 0, EAFNOSUPPORT),
            (libc::AF_VSOCK, stream, 0, EAFNOSUPPORT),
            (libc::AF_ALG, libc::SOCK_SEQPACKET, 0, EAFNOSUPPORT),
            (libc::AF_XDP, raw, 0, EAFNOSUPPORT),
            (libc::AF_BLUETOOTH, raw, 0, EAFNOSUPPORT),
            (libc::AF_KEY, raw, 2, EAFNOSUPPORT),
            (libc::AF_TIPC, stream, 0, EAFNOSUPPORT),
            // SMC.
            (43, stream, 0, EAFNOSUPPORT),
            (0, stream, 0, EAFNOSUPPORT),
            (-1, stream, 0, EAFNOSUPPORT),
        ] {
            // The descriptor stays open until the test process ends.
            // SAFETY: the call takes no pointer.
            let got = code(true, move || unsafe { libc::syscall(libc::SYS_socket, family, kind, protocol) });
            assert_eq!(got, expected, "family {family}, type {kind:#x}, protocol {protocol}");
        }
        for (family, expected) in [(libc::AF_UNIX, 0), (libc::AF_INET, EAFNOSUPPORT), (libc::AF_TIPC, EAFNOSUPPORT)] {
            let mut ends = [0; 2];
            // SAFETY: the pointer leads to two integers, which live longer than the call.
            let got = code(true, move || unsafe {
                libc::syscall(libc::SYS_socketpair, family, libc::SOCK_STREAM, 0, ends.as_mut_ptr())
            });
            assert_eq!(got, expected, "a pair of family {family}");
        }
    }

    #[test]
    #[expect(unsafe_code, reason = "raw system calls")]
    fn space_is_allocated_without_writing_only_if_the_kernel_limits_it() {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::MetadataExt;
        let file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut &file, &vec![1; 1 << 20]).unwrap();
        let descriptor = file.as_raw_fd();
        let fallocate = move |may_allocate, mode: i32, from: i64| {
            // SAFETY: the call takes no pointer.
            code(may_allocate, move || unsafe {
                libc::syscall(libc::SYS_fallocate, descriptor, mode, from, 1_i64 << 20)
            })
        };
        let all = [0, libc::FALLOC_FL_KEEP_SIZE, libc::FALLOC_FL_ZERO_RANGE, libc::FALLOC_FL_UNSHARE_RANGE, 128];
        for mode in all {
            assert_eq!(fallocate(false, mode, 1 << 20), libc::EOPNOTSUPP, "mode {mode}");
        }
        for request in refusals::ALLOCATING {
            let argument = [0_u64; 6];
            // SAFETY: the pointer leads to as many bytes as each of these requests reads.
            let call = move || unsafe { libc::syscall(libc::SYS_ioctl, descriptor, request, argument.as_ptr()) };
            assert_eq!(code(false, call), libc::EOPNOTSUPP, "request {request:#x}");
        }
        assert!(file.metadata().unwrap().blocks() * 512 < (1 << 20) + 8192, "nothing was allocated");
        // Space can be given back.
        let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        assert_eq!(fallocate(false, hole, 0), fallocate(true, hole, 0), "a hole");
        if fallocate(true, 0, 1 << 20) == 0 {
            assert_eq!(file.metadata().unwrap().len(), 2 << 20, "the kernel limits what is allocated");
        }
    }
}
