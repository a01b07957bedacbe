//! The arguments that are refused with another error than `ENOSYS`, so that programs and libraries take the way that
//! they have for kernels without the feature.
//!
//! The kernel applies all filters to a call, and the strictest answer counts; among errors, that of the filter that was
//! installed last (seccomp(2)). A filter has one error, so there is one for each error. They refuse only calls that the
//! main filter refuses too, or that allocate disk space.

use std::collections::BTreeMap;

use seccompiler::{BackendError, BpfProgram, SeccompAction, SeccompCmpOp, SeccompRule};

use super::{argument, compile, errno, family};

/// Requests of ioctl(2) that allocate disk space without writing to it, or make later writes do so.
#[rustfmt::skip]
pub(super) const ALLOCATING: [u32; 6] = [
    // `FS_IOC_RESVSP`, `FS_IOC_RESVSP64` and `FS_IOC_ZERO_RANGE` do on every file system what fallocate(2) does
    // (linux/falloc.h).
    0x4030_5828, 0x4030_582a, 0x4030_5839,
    // `XFS_IOC_ALLOCSP` and `XFS_IOC_ALLOCSP64` of older kernels (xfs_fs.h).
    0x4030_580a, 0x4030_5824,
    // `FS_IOC_FSSETXATTR` sets the size of extents (linux/fs.h). On XFS with a size of 1 GiB, 4 KiB that are written
    // take 1 GiB.
    0x401c_5820,
];

/// The modes of fallocate(2) that allocate no space: they make holes, or move content.
const NOT_ALLOCATING: [i32; 3] = [
    libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
    libc::FALLOC_FL_COLLAPSE_RANGE,
    libc::FALLOC_FL_INSERT_RANGE,
];

/// The protocols of IPv4 and IPv6 that some type of socket may have.
const PROTOCOLS: [i32; 3] = [libc::IPPROTO_IP, libc::IPPROTO_TCP, libc::IPPROTO_UDP];

/// Masks and values that together match every type of socket except `SOCK_STREAM` (1) and `SOCK_DGRAM` (2).
const OTHER_KINDS: [(u64, u64); 4] = [(0x8, 0x8), (0x4, 0x4), (0xf, 0), (0xf, 3)];

/// Returns the filters. `may_allocate` is `true` if programs may allocate disk space without writing to it.
pub(super) fn programs(may_allocate: bool) -> Result<Vec<BpfProgram>, BackendError> {
    let mut filters = vec![
        refuse(
            libc::EAFNOSUPPORT,
            vec![(libc::SYS_socket, other_families()?), (libc::SYS_socketpair, vec![not_unix()?])],
        )?,
        refuse(libc::EPROTONOSUPPORT, vec![(libc::SYS_socket, other_protocols()?)])?,
    ];
    if !may_allocate {
        let calls = vec![(libc::SYS_fallocate, vec![allocating_modes()?]), (libc::SYS_ioctl, allocating_requests()?)];
        filters.push(refuse(libc::EOPNOTSUPP, calls)?);
    }
    Ok(filters)
}

fn refuse(code: i32, calls: Vec<(libc::c_long, Vec<SeccompRule>)>) -> Result<BpfProgram, BackendError> {
    compile(BTreeMap::from_iter(calls), SeccompAction::Allow, errno(code))
}

/// Returns the rule that an argument has none of the values.
fn none_of<const N: usize>(index: u8, values: [i32; N]) -> Result<SeccompRule, BackendError> {
    let differs = |value: i32| argument(index, SeccompCmpOp::Ne, value.unsigned_abs().into());
    SeccompRule::new(values.into_iter().map(differs).collect::<Result<_, _>>()?)
}

fn other_families() -> Result<Vec<SeccompRule>, BackendError> {
    Ok(vec![none_of(0, [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK])?])
}

fn not_unix() -> Result<SeccompRule, BackendError> {
    none_of(0, [libc::AF_UNIX])
}

fn other_protocols() -> Result<Vec<SeccompRule>, BackendError> {
    let differs = |value: i32| argument(2, SeccompCmpOp::Ne, value.unsigned_abs().into());
    let mut rules = vec![SeccompRule::new(vec![family(libc::AF_NETLINK)?, differs(libc::NETLINK_ROUTE)?])?];
    for network in [libc::AF_INET, libc::AF_INET6] {
        let mut conditions = vec![family(network)?];
        for protocol in PROTOCOLS {
            conditions.push(differs(protocol)?);
        }
        rules.push(SeccompRule::new(conditions)?);
        for (mask, value) in OTHER_KINDS {
            let kind = argument(1, SeccompCmpOp::MaskedEq(mask), value)?;
            rules.push(SeccompRule::new(vec![family(network)?, kind])?);
        }
        for (kind, protocol) in [(libc::SOCK_STREAM, libc::IPPROTO_UDP), (libc::SOCK_DGRAM, libc::IPPROTO_TCP)] {
            let kind = argument(1, SeccompCmpOp::MaskedEq(super::SOCKET_KINDS), kind.unsigned_abs().into())?;
            let protocol = argument(2, SeccompCmpOp::Eq, protocol.unsigned_abs().into())?;
            rules.push(SeccompRule::new(vec![family(network)?, kind, protocol])?);
        }
    }
    Ok(rules)
}

fn allocating_modes() -> Result<SeccompRule, BackendError> {
    none_of(1, NOT_ALLOCATING)
}

fn allocating_requests() -> Result<Vec<SeccompRule>, BackendError> {
    let matches = |request: u32| SeccompRule::new(vec![argument(1, SeccompCmpOp::Eq, request.into())?]);
    ALLOCATING.into_iter().map(matches).collect()
}
