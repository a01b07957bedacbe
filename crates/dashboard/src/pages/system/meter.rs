//! Meters of slots and disks.

use journeyman_core::worker::DiskState;

/// The maximum number of slots that are drawn one by one.
const MAX_MARKS: u32 = 24;

/// The numbers of a meter of used space, in units of a million bytes.
pub(super) struct Meter {
    pub(super) used: u64,
    pub(super) total: u64,
    /// Above this, the space is low.
    pub(super) low: u64,
    /// Above this, no run begins.
    pub(super) high: u64,
}

impl Meter {
    pub(super) fn new(disk: &DiskState) -> Self {
        let DiskState { total_bytes, free_bytes, reserve_bytes } = *disk;
        let above = |free: u64| total_bytes.saturating_sub(free) / 1_000_000;
        let low = reserve_bytes.saturating_mul(2).max(total_bytes / 10);
        Self { used: above(free_bytes), total: above(0).max(1), low: above(low), high: above(reserve_bytes) }
    }
}

/// Returns true for each busy slot; nothing if there are too many slots to draw.
pub(super) fn marks(busy: u32, slots: u32) -> Vec<bool> {
    if slots > MAX_MARKS { Vec::new() } else { (0..slots).map(|slot| slot < busy).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_drawn_one_by_one_unless_there_are_many() {
        assert_eq!(marks(1, 2), [true, false]);
        assert_eq!(marks(3, 2), [true, true], "a worker may still finish runs after its slots were reduced");
        assert!(marks(1, 25).is_empty());
    }

    #[test]
    fn a_meter_turns_amber_before_the_reserve_is_reached() {
        let disk = |free_bytes| DiskState { total_bytes: 100_000_000, free_bytes, reserve_bytes: 4_000_000 };
        let meter = Meter::new(&disk(30_000_000));
        assert_eq!((meter.used, meter.total, meter.low, meter.high), (70, 100, 90, 96));
        assert_eq!(Meter::new(&disk(200_000_000)).used, 0);
    }
}
