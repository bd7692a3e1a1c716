//! Devices of this network that live on another date. They are no neighbours, because their frames carry
//! another day's keys, but a person is told of them: otherwise a device whose clock is days off is alone
//! without a reason (MESH-69).

use alloc::collections::BTreeMap;

use super::Error;
use crate::frame::Name;
use crate::limits::SECOND;
use crate::network::MeshNetwork;
use crate::wire::WireFrame;

/// Names that are remembered.
const NAMES_MAX: usize = 16;
/// How long a beacon counts, µs.
const FRESH: u64 = 60 * SECOND;

/// The other date that most devices of this network show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherDate {
    /// Days since 1970.
    pub day: u32,
    /// Names that showed it within the last minute, at most 16.
    pub devices: usize,
}

/// The names that were heard with another date.
#[derive(Debug, Default)]
pub(super) struct OtherDates {
    /// The day of each name, and when it was heard last, µs.
    heard: BTreeMap<Name, (u32, u64)>,
}

impl OtherDates {
    /// Notes a frame that is not of this network today, if it is a beacon of another day.
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
        // Without the check bytes, whose key depends on the date that is unknown here.
        let Some(Ok(WireFrame::Beacon { net, name, beacon })) = body.map(WireFrame::decode) else {
            return Err(Error::OtherNetwork);
        };
        // With a key the check must fit that other day, or any network could fill this list.
        let day = beacon.day().filter(|day| network.is_of_day(frame, net, *day));
        let day = day.ok_or(Error::OtherNetwork)?;
        // Beacons older than a minute do not count.
        self.heard.retain(|_, (_, at)| now < at.saturating_add(FRESH));
        // More names than these change nothing in what a person is told.
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
        // The day of most names is shown, so a single liar cannot replace it.
        let most = days.into_iter().max_by_key(|(_, devices)| *devices);
        most.map(|(day, devices)| OtherDate { day, devices })
    }
}
