//! The network: a public name, or a key that its members share.

use alloc::string::String;
use alloc::vec::Vec;
use mezza_core::{Secret, blake2b, labelled_hash};

use crate::limits::SECOND;

/// Bytes of the MAC at the end of each frame of a closed network.
pub const MAC_BYTES: usize = 8;
/// Most bytes of a network's name.
pub const NAME_BYTES_MAX: usize = 32;
/// Seconds of a day.
const DAY_S: u64 = 86_400;
/// How long before and after midnight the other day's frames are accepted, seconds.
const MIDNIGHT_S: u64 = 3_600;

/// A network. All members have the same name and key, so they identify no device.
#[derive(Debug)]
pub struct MeshNetwork {
    name: String,
    key: Option<Secret<32>>,
    days: [DayKeys; 3],
}

/// The keys of one day's frames.
#[derive(Debug)]
struct DayKeys {
    day: u32,
    net: [u8; 4],
    mac: Option<Secret<32>>,
}

impl MeshNetwork {
    /// Makes the network of this name; closed if there is a key. The name is cut to 32 bytes.
    pub fn new(name: &str, key: Option<Secret<32>>) -> Self {
        // The cut is at a character, so the name stays valid UTF-8.
        let end = (0..=name.len().min(NAME_BYTES_MAX)).rfind(|at| name.is_char_boundary(*at));
        let name = String::from(&name[..end.unwrap_or(0)]);
        let days = [0, 1, 2].map(|day| DayKeys::new(&name, key.as_ref(), day));
        Self { name, key, days }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if frames of the network are checked with a key.
    pub fn is_closed(&self) -> bool {
        self.key.is_some()
    }

    /// Returns the length of the MAC at the end of each frame in bytes; 0 for an open network.
    pub fn mac_bytes(&self) -> usize {
        if self.is_closed() { MAC_BYTES } else { 0 }
    }

    /// Derives the keys of the current day; `mesh` is network time, µs since 1970.
    pub fn follow_clock(&mut self, mesh: u64) {
        let day = (mesh / SECOND / DAY_S) as u32;
        if self.days[1].day != day {
            let day_keys = |day| DayKeys::new(&self.name, self.key.as_ref(), day);
            // All three days are derived at once, and only when the day changes.
            self.days = [day.wrapping_sub(1), day, day.wrapping_add(1)].map(day_keys);
        }
    }

    /// Returns the network id of today's beacons.
    pub fn net(&self) -> [u8; 4] {
        self.days[1].net
    }

    /// Returns true if a beacon's network id is today's, or within an hour of midnight the other
    /// day's.
    pub fn is_ours(&self, net: [u8; 4], mesh: u64) -> bool {
        // Clocks may differ around midnight, so the other day's frames are accepted for an hour.
        self.nearby_days(mesh).any(|day| day.net == net)
    }

    /// Appends the MAC to a frame of a closed network.
    pub fn append_mac(&self, frame: &mut Vec<u8>) {
        if let Some(mac) = &self.days[1].mac {
            let check = compute_mac(mac, frame);
            frame.extend_from_slice(check.expose());
        }
    }

    /// Returns the frame without its MAC, or `None` if the MAC is wrong.
    pub fn check_mac<'a>(&self, frame: &'a [u8], mesh: u64) -> Option<&'a [u8]> {
        // Frames of an open network have no MAC: any device may be a member.
        if !self.is_closed() {
            return Some(frame);
        }
        let body = frame.len().checked_sub(MAC_BYTES).map(|end| &frame[..end])?;
        // A wrong MAC is treated like a frame of another network, so nothing of it is read (section
        // Frames).
        self.nearby_days(mesh).any(|day| day.verify_mac(frame)).then_some(body)
    }

    /// Returns true if `frame`, a beacon that names `net`, is one of this network on another `day`.
    pub fn is_of_day(&self, frame: &[u8], net: [u8; 4], day: u32) -> bool {
        let keys = DayKeys::new(&self.name, self.key.as_ref(), day);
        keys.net == net && keys.verify_mac(frame)
    }

    /// Returns the days whose frames are accepted now.
    fn nearby_days(&self, mesh: u64) -> impl Iterator<Item = &DayKeys> {
        let second = mesh / SECOND % DAY_S;
        let [yesterday, today, tomorrow] = &self.days;
        let early = (second < MIDNIGHT_S).then_some(yesterday);
        let late = (second >= DAY_S - MIDNIGHT_S).then_some(tomorrow);
        [Some(today), early, late].into_iter().flatten()
    }
}

impl DayKeys {
    fn new(name: &str, key: Option<&Secret<32>>, day: u32) -> Self {
        let number = day.to_be_bytes();
        let mac = key.map(|key| {
            Secret::init_with(|mac| {
                let label = "mezza/mesh key";
                let parts: [&[u8]; 4] =
                    [&[label.len() as u8], label.as_bytes(), key.expose(), &number];
                blake2b(mac, &[], "", &parts);
            })
        });
        let net = match &mac {
            // The network id must not show the name of a closed network, so it is derived from the
            // key.
            Some(mac) => labelled_hash("mezza/mesh net", &[mac.expose(), &number]),
            None => labelled_hash("mezza/mesh net", &[name.as_bytes(), &number]),
        };
        Self { day, net, mac }
    }

    /// Returns true if the MAC at the end of a frame is right, or if the network is open and has
    /// none.
    fn verify_mac(&self, frame: &[u8]) -> bool {
        let Some(key) = &self.mac else { return true };
        let Some((body, mac)) = frame.split_last_chunk::<MAC_BYTES>() else { return false };
        // `Secret` compares in constant time.
        compute_mac(key, body) == Secret::copy_from(mac)
    }
}

/// Computes the first eight bytes of keyed BLAKE2b-256 over the frame.
fn compute_mac(key: &Secret<32>, frame: &[u8]) -> Secret<MAC_BYTES> {
    let mut whole = [0; 32];
    blake2b(&mut whole, key.expose(), "", &[frame]);
    Secret::init_with(|check| check.copy_from_slice(&whole[..MAC_BYTES]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = (1_000 * DAY_S + DAY_S / 2) * SECOND;

    fn closed(byte: u8) -> MeshNetwork {
        let mut network = MeshNetwork::new("friends", Some(Secret::copy_from(&[byte; 32])));
        network.follow_clock(NOON);
        network
    }

    #[test]
    fn a_frame_of_another_network_is_dropped_unread() {
        let ours = closed(1);
        let theirs = closed(2);
        let mut frame = b"frame".to_vec();
        ours.append_mac(&mut frame);
        assert_eq!(ours.check_mac(&frame, NOON), Some(&b"frame"[..]));
        assert_eq!(theirs.check_mac(&frame, NOON), None);
        assert_eq!(ours.check_mac(b"short", NOON), None);
        frame[0] ^= 1;
        assert_eq!(ours.check_mac(&frame, NOON), None);
        assert!(!ours.is_ours(theirs.net(), NOON));
    }

    #[test]
    fn the_other_day_counts_within_an_hour_of_midnight() {
        let mut network = MeshNetwork::new("open", None);
        let midnight = 1_001 * DAY_S * SECOND;
        network.follow_clock(midnight - SECOND);
        let yesterday = network.net();
        network.follow_clock(midnight + SECOND);
        assert_ne!(network.net(), yesterday);
        assert!(network.is_ours(yesterday, midnight + SECOND));
        assert!(!network.is_ours(yesterday, midnight + 3_601 * SECOND));
        assert_eq!(MeshNetwork::new(&"ä".repeat(30), None).name().len(), 32);
    }
}
