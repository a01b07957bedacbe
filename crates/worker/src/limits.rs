//! What a run may use beside time: how it ends when it has used it up.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use journeyman_core::ports::{Exhausted, FreeSpace, Process};
use journeyman_core::project::LimitSettings;
use journeyman_core::run::ReasonCode;

use crate::disk::{Used, used};
use crate::failure::Stopped;
use crate::room::Room;
use crate::space::Growth;

/// How often memory and processes are looked at.
pub(crate) const BEAT: Duration = Duration::from_millis(250);

/// How often the disk is, at most.
const DISK_BEAT: Duration = Duration::from_secs(2);

/// The disk is looked at for one part in so many of the time.
const DISK_PART: u32 = 20;

/// The same while it fills quickly, or is nearly full.
const HURRIED_PART: u32 = 4;

/// Why a run ends that came up against a limit of its project.
pub(crate) fn reached(exhausted: Exhausted, limits: &LimitSettings) -> Stopped {
    let resources = limits.resources();
    match exhausted {
        Exhausted::Memory => {
            let bytes = resources.memory_bytes;
            let most = bytes.map_or_else(|| "it may".to_owned(), |bytes| format!("{bytes} bytes"));
            let text = format!(
                "the run needed more memory than {most}, and one of its processes was killed for it; raise \
                 limits.memoryBytes of the project"
            );
            Stopped::failed(ReasonCode::OutOfMemory, text)
        }
        Exhausted::Processes => {
            let count = resources.processes;
            let most = count.map_or_else(|| "it may".to_owned(), |count| count.to_string());
            let text = format!(
                "the run started more processes and threads than {most}; raise limits.processes of the project"
            );
            Stopped::failed(ReasonCode::TooManyProcesses, text)
        }
    }
}

/// A look now and then at what a run uses.
pub(crate) struct Watch<'a> {
    limits: &'a LimitSettings,
    folders: [PathBuf; 3],
    growth: Growth,
    /// When the disk is looked at again.
    next: Instant,
    /// The same where there is reason to.
    soonest: Instant,
    /// What the first look has counted.
    first: Option<u64>,
    /// What the last look has counted, and what was free then.
    last: Option<(u64, u64)>,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(room: &Room, limits: &'a LimitSettings) -> Self {
        let now = Instant::now();
        let (folders, growth) = (room.workspace.folders(), room.space.enter());
        // The first look is at once: what is counted from is known then.
        Self { limits, folders, growth, next: now, soonest: now, first: None, last: None }
    }

    /// To be called every [`BEAT`]: why the run ends, if it does.
    pub(crate) async fn look(&mut self, process: &dyn Process) -> Option<Stopped> {
        if let Some(exhausted) = process.exhausted() {
            return Some(reached(exhausted, self.limits));
        }
        let (now, free) = (Instant::now(), self.growth.free());
        if now >= self.next || now >= self.soonest && free.is_some_and(|free| self.has_reason(free)) {
            let counted = disk(Some(process), self.folders.clone(), self.limits.disk_bytes()).await;
            let took = now.elapsed();
            self.next = Instant::now() + DISK_BEAT.max(took * DISK_PART);
            self.soonest = Instant::now() + BEAT.max(took * HURRIED_PART);
            match counted {
                Counted::Bytes(bytes) => self.note(bytes),
                Counted::Stopped(stopped) => return Some(stopped),
            }
        }
        self.growth.stop(free?, now)
    }

    /// Whether to look before it is time: the disk has lost more than the run may still use, or has little left.
    fn has_reason(&self, free: FreeSpace) -> bool {
        let is_fast = self.last.is_some_and(|(bytes, before)| {
            before.saturating_sub(free.free_bytes) > self.limits.disk_bytes().saturating_sub(bytes)
        });
        is_fast || !free.is_enough()
    }

    fn note(&mut self, bytes: u64) {
        let first = *self.first.get_or_insert(bytes);
        self.growth.set(bytes.saturating_sub(first));
        self.last = self.growth.free().map(|free| (bytes, free.free_bytes));
    }
}

/// Comes back when a program has used up what its run may; never else.
pub(crate) async fn watch(process: &dyn Process, room: &Room, limits: &LimitSettings) -> Stopped {
    let mut watch = Watch::new(room, limits);
    loop {
        tokio::time::sleep(BEAT).await;
        if let Some(stopped) = watch.look(process).await {
            return stopped;
        }
    }
}

/// What was counted on the disk.
pub(crate) enum Counted {
    /// So many bytes, which a run may have.
    Bytes(u64),
    /// Why the run ends.
    Stopped(Stopped),
}

/// Counts what folders have on the disk, and what a program holds open there that was removed from them.
pub(crate) async fn disk(process: Option<&dyn Process>, folders: [PathBuf; 3], most: u64) -> Counted {
    let stopped = |code, text: String| Counted::Stopped(Stopped::failed(code, text));
    // A limit that cannot be kept is not one.
    let failed = |error: std::io::Error| {
        let text = format!("what the job has on the disk could not be counted: {error}");
        Counted::Stopped(Stopped::may_pass(ReasonCode::Internal, text))
    };
    let deleted = match (process, folders[0].metadata()) {
        (Some(process), Ok(note)) => process.deleted_bytes(note.dev()).await,
        (None, _) => 0,
        (_, Err(error)) => return failed(error),
    };
    let left = most.saturating_sub(deleted);
    let counted = tokio::task::spawn_blocking(move || used(&folders, left)).await.map_err(std::io::Error::other);
    match counted.flatten() {
        Ok(Used::All(bytes)) if deleted <= most => Counted::Bytes(bytes + deleted),
        Ok(Used::All(_) | Used::MoreThan(_)) => {
            let text = format!(
                "workspace and home of the job have more than {most} bytes, {deleted} of them in removed files that are still \
                 open; raise limits.diskBytes of the project"
            );
            stopped(ReasonCode::DiskLimit, text)
        }
        Ok(Used::TooDeep) => {
            let text = "folders are nested so deeply that what is in them cannot be counted; remove them";
            stopped(ReasonCode::DiskLimit, text.to_owned())
        }
        Err(error) => failed(error),
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use journeyman_core::ports::Exit;

    use super::*;
    use crate::space::Space;

    /// A program that holds so many bytes in files that were removed.
    struct Holding(u64);

    #[async_trait]
    impl Process for Holding {
        async fn wait(&mut self) -> Exit {
            std::future::pending().await
        }

        async fn pause(&mut self) -> bool {
            false
        }

        async fn resume(&mut self) -> bool {
            true
        }

        fn exhausted(&self) -> Option<Exhausted> {
            None
        }

        async fn deleted_bytes(&self, _device: u64) -> u64 {
            self.0
        }

        async fn end(&mut self) -> Exit {
            Exit::Code(0)
        }
    }

    fn folders(root: &tempfile::TempDir) -> [PathBuf; 3] {
        ["tree", "home", "desk"].map(|name| {
            let folder = root.path().join(name);
            std::fs::create_dir_all(&folder).expect("a folder");
            folder
        })
    }

    #[tokio::test]
    async fn what_a_program_holds_without_a_name_counts() {
        const MOST: u64 = 8 << 20;
        let root = tempfile::tempdir().expect("a folder");
        let folders = folders(&root);
        std::fs::write(folders[0].join("x"), vec![1; 1 << 20]).expect("a file");
        for (held, is_too_much) in [(0, false), (6 << 20, false), (15 << 19, true), (9 << 20, true)] {
            let counted = disk(Some(&Holding(held)), folders.clone(), MOST).await;
            match counted {
                Counted::Bytes(bytes) => assert!(!is_too_much && bytes >= held + (1 << 20), "{held}: {bytes}"),
                Counted::Stopped(Stopped::Failed { reason, .. }) => {
                    assert!(is_too_much && reason.code == ReasonCode::DiskLimit, "{held}: {}", reason.text);
                    assert!(reason.text.contains(&held.to_string()), "{}", reason.text);
                }
                Counted::Stopped(other) => panic!("{other}"),
            }
        }
    }

    #[tokio::test]
    async fn a_disk_that_fills_quickly_is_looked_at_before_it_is_time() {
        let root = tempfile::tempdir().expect("a folder");
        let limits = LimitSettings { disk_bytes: Some(100), ..LimitSettings::default() };
        let growth = Space::new(root.path().to_owned(), Some(0)).enter();
        let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(3600));
        let last = Some((90, 1000));
        let mut watch =
            Watch { limits: &limits, folders: folders(&root), growth, next: later, soonest: now, first: None, last };
        let free = |free_bytes, reserve_bytes| FreeSpace { free_bytes, reserve_bytes };
        assert!(!watch.has_reason(free(990, 0)), "it may still use as much");
        assert!(watch.has_reason(free(989, 0)), "it may have used more than it may");
        assert!(watch.has_reason(free(990, 991)), "there is little left");
        std::fs::write(root.path().join("tree/x"), "more than 100 bytes, as each entry counts").expect("a file");
        watch.last = Some((0, u64::MAX));
        assert!(watch.look(&Holding(0)).await.is_some(), "it was looked at");
        watch.last = Some((0, 0));
        watch.soonest = Instant::now();
        assert!(watch.look(&Holding(0)).await.is_none(), "nothing is lost since, and it is not time");
    }
}
