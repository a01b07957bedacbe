//! The SELinux labels of containers. Each workspace has a level of its own, so that programs of one workspace may not use
//! the files of another, even if they break out of their container.
//!
//! The engine gives the container the level, and relabels the folders that only the service uses. It never relabels a
//! folder of the system or of an administrator.

use std::io::Write;
use std::path::Path;
use std::{fs, io};

use journeyman_core::idempotency::Fingerprint;

/// The type of processes in containers, in the policy of container engines (container-selinux).
const PROCESS_TYPE: &str = "container_t";

/// The number of categories of the policies of distributions.
const CATEGORIES: u32 = 1024;

/// The attribute of a thread with the label of the sockets that it makes.
const SOCKET_LABEL: &str = "/proc/thread-self/attr/sockcreate";

/// The remedy if SELinux refuses something.
pub(super) const REMEDY: &str = "ausearch -m avc shows what SELinux has refused; load the policy module \
                                 deploy/selinux/journeyman.cil with semodule -i, or set container-selinux = false, \
                                 which turns off SELinux for the containers";

/// The programs that may use a folder of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Users {
    /// Those of one workspace. The engine gives the folder its level.
    Workspace,
    /// Those of all containers. The engine gives the folder the label of files that all containers may use.
    Containers,
    /// Others, too: the folder belongs to the system or an administrator, and keeps its label.
    Others,
}

impl Users {
    /// Returns the option of a bind mount that has the engine relabel the folder.
    pub(super) const fn option(self) -> Option<&'static str> {
        match self {
            Self::Workspace => Some("Z"),
            Self::Containers => Some("z"),
            Self::Others => None,
        }
    }
}

/// The level of a workspace, such as `s0:c5,c17`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Level(String);

impl Level {
    /// Returns the level of a workspace. Workspaces with separate users (`user`) have separate levels; those of a shared
    /// user have levels that are rarely the same.
    pub(super) fn of(workspace: &Path, user: Option<u32>) -> Self {
        let number = user.unwrap_or_else(|| {
            let Fingerprint(hash) = Fingerprint::of("selinux", workspace.as_os_str().as_encoded_bytes());
            hash.iter().take(size_of::<u32>()).fold(0, |number, byte| number << 8 | u32::from(*byte))
        });
        // The number selects one of the pairs of different categories.
        let (mut low, mut high) = (number % (CATEGORIES * (CATEGORIES - 1) / 2), 1);
        while low >= high {
            low -= high;
            high += 1;
        }
        Self(format!("s0:c{low},c{high}"))
    }

    /// Returns the options of a container for its processes.
    pub(super) fn options(&self) -> [String; 2] {
        [format!("label=type:{PROCESS_TYPE}"), format!("label=level:{}", self.0)]
    }

    /// Runs `make`, and gives the sockets that it makes the label of the container's processes, which may connect only
    /// to sockets with this label.
    ///
    /// # Errors
    /// SELinux refuses the label, or the error of `make`.
    pub(super) fn label_sockets<T>(&self, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.label_sockets_by(Path::new(SOCKET_LABEL), make)
    }

    fn label_sockets_by<T>(&self, attribute: &Path, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let set = |label: &str| {
            let written = fs::OpenOptions::new().write(true).open(attribute);
            // The kernel takes the whole label in one call.
            written.and_then(|mut file| file.write_all(label.as_bytes())).map_err(|error| {
                let text = format!("the socket of a container could not get its SELinux label: {error}; {REMEDY}");
                io::Error::new(error.kind(), text)
            })
        };
        set(&format!("system_u:system_r:{PROCESS_TYPE}:{}", self.0))?;
        let made = make();
        // A line without text restores the default.
        set("\n")?;
        made
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_user_has_a_level_and_each_level_has_two_categories() {
        let workspace = Path::new("/data/workspaces/a/tree");
        let level = |user| Level::of(workspace, Some(user)).0;
        let first = 2_000_000_001;
        let all: HashSet<String> = (first..first + 65_535).map(level).collect();
        assert_eq!(all.len(), 65_535);
        for (user, expected) in [(0, "s0:c0,c1"), (1, "s0:c0,c2"), (2, "s0:c1,c2"), (523_775, "s0:c1022,c1023")] {
            assert_eq!(level(user), expected);
        }
        assert_eq!(level(523_776), level(0));
    }

    #[test]
    fn workspaces_of_a_shared_user_have_levels_too() {
        let level = |path: &str| Level::of(Path::new(path), None);
        assert_eq!(level("/data/workspaces/a/tree"), level("/data/workspaces/a/tree"));
        assert_ne!(level("/data/workspaces/a/tree"), level("/data/workspaces/b/tree"));
    }

    #[test]
    fn a_socket_is_made_while_the_thread_has_the_label() {
        let attribute = tempfile::NamedTempFile::new().unwrap();
        let level = Level::of(Path::new("/"), Some(1));
        let read = || fs::read_to_string(attribute.path());
        let seen = level.label_sockets_by(attribute.path(), read).unwrap();
        assert_eq!(seen, "system_u:system_r:container_t:s0:c0,c2");
        assert!(read().unwrap().starts_with('\n'), "the label is not kept");
        let missing = level.label_sockets_by(Path::new("/no/such/attribute"), || Ok(())).unwrap_err().to_string();
        assert!(missing.contains("container-selinux = false") && missing.contains("semodule"), "{missing}");
    }
}
