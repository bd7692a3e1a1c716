//! Devices of this network with another date. Their frames use another day's keys, so they cannot
//! be neighbours. They are still reported to the user: otherwise a device whose clock is off by
//! days would have no neighbours and no explanation (MESH-69).

use alloc::collections::BTreeMap;

use super::Error;
use crate::frame::Name;
use crate::limits::SECOND;
use crate::network::MeshNetwork;
use crate::wire::WireFrame;

/// Maximum number of remembered names.
const NAMES_MAX: usize = 16;
/// How long a beacon of another date is remembered, µs.
const FRESH: u64 = 60 * SECOND;

/// The other date shown by most devices of this network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherDate {
    /// Days since 1970.
    pub day: u32,
    /// Number of names that showed this day within the last minute, at most 16.
    pub devices: usize,
}

/// The names of neighbours whose beacons were for another day than today.
#[derive(Debug, Default)]
pub(super) struct OtherDates {
    /// The day of each name, and the time of its last beacon, µs.
    heard: BTreeMap<Name, (u32, u64)>,
}

impl OtherDates {
    /// Records a frame that failed the check for today, if it is a beacon of this network on
    /// another day.
    ///
    /// # Errors
    /// The frame is of another network.
    pub fn record_frame(
        &mut self,
        network: &MeshNetwork,
        frame: &[u8],
        now: u64,
    ) -> Result<(), Error> {
        let body = frame.len().checked_sub(network.mac_bytes()).map(|end| &frame[..end]);
        // Decode without the MAC, whose key depends on the date that is still unknown.
        let Some(Ok(WireFrame::Beacon { net, name, beacon })) = body.map(WireFrame::decode) else {
            return Err(Error::OtherNetwork);
        };
        // In a closed network the MAC must fit that other day, or any network could fill this list.
        let day = beacon.day().filter(|day| network.is_of_day(frame, net, *day));
        let day = day.ok_or(Error::OtherNetwork)?;
        // Beacons older than a minute do not count.
        self.heard.retain(|_, (_, at)| now < at.saturating_add(FRESH));
        // More names would not change the report to the user.
        if self.heard.len() < NAMES_MAX || self.heard.contains_key(&name) {
            self.heard.insert(name, (day, now));
        }
        Ok(())
    }

    /// Returns the day that most names showed within the last minute.
    pub fn most_shown(&self, now: u64) -> Option<OtherDate> {
        let mut days = BTreeMap::<u32, usize>::new();
        for (day, at) in self.heard.values() {
            if now < at.saturating_add(FRESH) {
                *days.entry(*day).or_default() += 1;
            }
        }
        // The day of most names is reported, so that a single liar cannot replace it.
        let most = days.into_iter().max_by_key(|(_, devices)| *devices);
        most.map(|(day, devices)| OtherDate { day, devices })
    }
}
