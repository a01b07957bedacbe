//! Charts of amounts by day, stacked by series: the positions of their parts in units of the view box.

use crate::words;

/// The number of series that have a color. The others share one.
pub(crate) const MAX_KEYS: usize = 4;

/// The classes of the colors in lists, and in charts.
const KEYS: [(&str, &str); MAX_KEYS + 1] = [("k1", "v1"), ("k2", "v2"), ("k3", "v3"), ("k4", "v4"), ("k5", "v5")];

/// Returns the class of the color of the series with this index in lists.
pub(crate) fn key(index: usize) -> &'static str {
    KEYS.get(index).map_or("k5", |(list, _)| *list)
}

/// A part of a bar.
pub(crate) struct Bar {
    pub(crate) class: &'static str,
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) height: String,
}

/// A line of the grid.
pub(crate) struct GridLine {
    pub(crate) y: String,
    /// The vertical position of the label.
    pub(crate) text_y: String,
    pub(crate) label: String,
}

/// The area of the bars.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Area {
    pub(crate) left: f64,
    pub(crate) width: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
    /// The width of a bar.
    pub(crate) bar: f64,
    /// The number of days.
    pub(crate) days: i32,
}

impl Area {
    /// Returns the middle of the bar of a day.
    pub(crate) fn middle(&self, day: i32) -> f64 {
        self.left + self.width / f64::from(self.days.max(1)) * (f64::from(day) + 0.5)
    }

    /// Returns the lines of the grid for a scale that ends at `end`.
    pub(crate) fn grid(&self, end: u64) -> Vec<GridLine> {
        let line = |micros| {
            let y = self.y_of(micros, end);
            GridLine { y: decimal(y), text_y: decimal(y + 4.0), label: axis(micros) }
        };
        [0, end / 2, end].map(line).into()
    }

    /// Stacks the amounts of a day, with a gap between them. Each amount is given with the index of its series.
    pub(crate) fn stack(&self, day: i32, amounts: &[(usize, u64)], end: u64) -> Vec<Bar> {
        let mut below = 0_u64;
        let mut bars = Vec::new();
        for (index, micros) in amounts.iter().filter(|(_, micros)| *micros > 0) {
            let (bottom, upper) = (self.y_of(below, end), self.y_of(below.saturating_add(*micros), end));
            bars.push(Bar {
                class: KEYS.get(*index).map_or("v5", |(_, chart)| *chart),
                x: decimal(self.middle(day) - self.bar / 2.0),
                y: decimal(upper),
                height: decimal((bottom - upper - 1.0).max(0.8)),
            });
            below = below.saturating_add(*micros);
        }
        bars
    }

    #[expect(clippy::cast_precision_loss, reason = "positions in a chart need no more digits")]
    fn y_of(&self, micros: u64, end: u64) -> f64 {
        self.bottom - (self.bottom - self.top) * (micros as f64 / end.max(1) as f64)
    }
}

/// Returns the end of the scale: an amount that is at least `micros`, and whose half is a round number too.
pub(crate) fn nice(micros: u64) -> u64 {
    let mut unit = 10_000;
    loop {
        for factor in [2, 4, 10] {
            if unit * factor >= micros {
                return unit * factor;
            }
        }
        if unit > u64::MAX / 1000 {
            return u64::MAX;
        }
        unit *= 10;
    }
}

/// Formats an amount without cents that are zero: `$10`, `$0.50`.
pub(crate) fn axis(micros: u64) -> String {
    let text = words::money(micros);
    let text = text.strip_suffix("00").filter(|text| micros < 100_000 && text.contains('.')).unwrap_or(&text);
    text.strip_suffix(".00").unwrap_or(text).to_owned()
}

/// Formats a position.
pub(crate) fn decimal(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_ends_at_a_round_amount_whose_half_is_round_too() {
        let all = [0, 1, 20_000, 20_001, 9_400_000, 14_600_000, 21_000_000].map(nice);
        assert_eq!(all, [20_000, 20_000, 20_000, 40_000, 10_000_000, 20_000_000, 40_000_000]);
        assert_eq!(nice(u64::MAX), u64::MAX);
        assert_eq!([0, 10_000, 500_000, 10_000_000].map(axis), ["$0", "$0.01", "$0.50", "$10"]);
    }

    #[test]
    fn the_amounts_of_a_day_are_stacked_from_the_bottom() {
        let area = Area { left: 0.0, width: 100.0, top: 0.0, bottom: 100.0, bar: 10.0, days: 2 };
        let bars = area.stack(1, &[(0, 50), (1, 0), (7, 25)], 100);
        let bars: Vec<_> =
            bars.iter().map(|bar| (bar.class, bar.x.as_str(), bar.y.as_str(), bar.height.as_str())).collect();
        assert_eq!(bars, [("v1", "70.0", "50.0", "49.0"), ("v5", "70.0", "25.0", "24.0")]);
        assert_eq!(area.grid(100).iter().map(|line| line.y.as_str()).collect::<Vec<_>>(), ["100.0", "50.0", "0.0"]);
    }
}
