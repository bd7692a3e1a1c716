//! Recorded contacts and places, in the formats of other tools.
//!
//! | form | lines |
//! |---|---|
//! | ONE | `t CONN a b up` and `t CONN a b down` |
//! | contact list | `t i j`: in range during the interval that ends at t |
//! | positions | `t id x y` |
//! | `BonnMotion` | one line a device: `t x y t x y ..`, straight lines between |

use std::collections::{BTreeMap, BTreeSet};

use crate::crowd::{DeviceId, Place};

/// Two devices, the lower number first.
type Pair = (DeviceId, DeviceId);

/// A text is not a valid trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The number of the line, from 1.
    pub line: usize,
}

impl std::fmt::Display for TraceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {} is no line of this kind of trace", self.line)
    }
}

impl std::error::Error for TraceError {}

/// Contacts that begin and end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContactTrace {
    /// Second, pair, and true if the devices come into range.
    pub changes: Vec<(u64, Pair, bool)>,
}

impl ContactTrace {
    /// Parses the format of the ONE simulator.
    ///
    /// # Errors
    /// The first malformed line.
    pub fn parse_one(text: &str) -> Result<Self, TraceError> {
        let mut changes = each_line(text, |words| {
            let [t, "CONN", a, b, way] = *words else { return None };
            let up = match way {
                "up" => true,
                "down" => false,
                _ => return None,
            };
            Some((parse_second(t)?, parse_pair(a, b)?, up))
        })?;
        changes.sort_by_key(|(t, ..)| *t);
        Ok(Self { changes })
    }

    /// Parses a contact list whose lines stand for `interval` seconds each.
    ///
    /// # Errors
    /// The first malformed line.
    pub fn parse_list(text: &str, interval: u64) -> Result<Self, TraceError> {
        let seen = each_line(text, |words| {
            let [t, a, b, ..] = *words else { return None };
            Some((parse_second(t)?, parse_pair(a, b)?))
        })?;
        let mut ends: BTreeMap<Pair, Vec<u64>> = BTreeMap::new();
        for (t, pair) in seen {
            ends.entry(pair).or_default().push(t);
        }
        let mut changes = Vec::new();
        for (pair, mut times) in ends {
            times.sort_unstable();
            let mut times = times.into_iter().peekable();
            while let Some(first) = times.next() {
                let mut last = first;
                while let Some(next) = times.next_if(|next| *next <= last + interval) {
                    last = next;
                }
                changes.push((first.saturating_sub(interval), pair, true));
                changes.push((last, pair, false));
            }
        }
        // Within one second, ends of contacts come before beginnings.
        changes.sort_unstable_by_key(|(t, pair, up)| (*t, *up, *pair));
        Ok(Self { changes })
    }

    /// Returns the devices in the trace.
    pub fn devices(&self) -> BTreeSet<DeviceId> {
        self.changes.iter().flat_map(|(_, (a, b), _)| [*a, *b]).collect()
    }
}

/// Places by second and device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlaceTrace {
    /// Second and place, in order, of each device.
    pub points: BTreeMap<DeviceId, Vec<(f64, Place)>>,
}

impl PlaceTrace {
    /// Parses lines of `t id x y`.
    ///
    /// # Errors
    /// The first malformed line.
    pub fn parse_positions(text: &str) -> Result<Self, TraceError> {
        let lines = each_line(text, |words| {
            let [t, id, x, y] = *words else { return None };
            Some((
                parse_number(t)?,
                id.parse().ok()?,
                Place { x: parse_number(x)?, y: parse_number(y)? },
            ))
        })?;
        let mut points: BTreeMap<DeviceId, Vec<_>> = BTreeMap::new();
        for (t, id, place) in lines {
            points.entry(id).or_default().push((t, place));
        }
        for list in points.values_mut() {
            list.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        Ok(Self { points })
    }

    /// Parses the format of `BonnMotion`.
    ///
    /// # Errors
    /// The first malformed line.
    pub fn parse_bonnmotion(text: &str) -> Result<Self, TraceError> {
        let lines = each_line(text, |words| {
            let numbers: Option<Vec<f64>> = words.iter().map(|word| parse_number(word)).collect();
            let numbers = numbers?;
            let points = numbers.chunks_exact(3);
            let whole = points.remainder().is_empty() && !numbers.is_empty();
            let grows = numbers.chunks_exact(3).is_sorted_by_key(|point| point[0]);
            (whole && grows).then(|| points.map(|p| (p[0], Place { x: p[1], y: p[2] })).collect())
        })?;
        Ok(Self { points: (0..).zip(lines).collect() })
    }

    /// Returns the place of a device, on a straight line between its points.
    pub fn place_at(&self, device: DeviceId, second: f64) -> Option<Place> {
        let points = self.points.get(&device)?;
        let after = points.partition_point(|(t, _)| *t <= second);
        let (Some(before), Some(after)) = (after.checked_sub(1), points.get(after)) else {
            return points.get(after.saturating_sub(1)).map(|(_, place)| *place);
        };
        let (t, from) = points[before];
        let (end, to) = *after;
        let share = (second - t) / (end - t).max(f64::EPSILON);
        Some(Place { x: from.x + (to.x - from.x) * share, y: from.y + (to.y - from.y) * share })
    }
}

/// Parses each line that is neither empty nor a comment.
fn each_line<T>(text: &str, read: impl Fn(&[&str]) -> Option<T>) -> Result<Vec<T>, TraceError> {
    let mut read_lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words: Vec<_> = line.split_whitespace().collect();
        if words.is_empty() || words[0].starts_with('#') {
            continue;
        }
        read_lines.push(read(&words).ok_or(TraceError { line: number })?);
    }
    Ok(read_lines)
}

fn parse_number(word: &str) -> Option<f64> {
    word.parse().ok().filter(|number: &f64| number.is_finite())
}

fn parse_second(word: &str) -> Option<u64> {
    parse_number(word).filter(|t| (0.0..1e12).contains(t)).map(super::whole_part)
}

fn parse_pair(a: &str, b: &str) -> Option<Pair> {
    let a = a.parse().ok()?;
    let b = b.parse().ok()?;
    (a != b).then_some((std::cmp::min(a, b), std::cmp::max(a, b)))
}
