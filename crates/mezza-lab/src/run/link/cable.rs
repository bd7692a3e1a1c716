//! A cable in software: the network cards of both machines are TAP devices of this process, which
//! moves frames between them. The cable can lose a share of the frames and translate the port of a
//! link.
//!
//! ```text
//!  namespace A                                  namespace B
//!  va (TAP) <---- thread, thread: losses ----> vb (TAP)
//!                  translator: 4795 <-> 20000 + n
//! ```

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use crate::goals::seka::net::Namespaces;

/// The port of a link, on the inside of the translator.
const LINK_PORT: u16 = 4_795;
/// The first port of the translator.
const FIRST_PORT: u16 = 20_000;
/// The number of ports that the translator uses.
const PORTS: u16 = 10_000;
/// Time after which the translator forgets an unused mapping.
pub const MAPPING: Duration = Duration::from_secs(30);
/// Offset of the IPv4 header in an Ethernet frame, bytes.
const IP_AT: usize = 14;
/// Interval at which a thread checks if the cable was cut, ms.
const LOOK_MS: u16 = 200;

/// Faults of a cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Frames lost out of 1,000, in each direction.
    pub loss_permille: u32,
    /// True if a translator is in front of B.
    pub translates: bool,
}

/// The mapping of the translated port.
#[derive(Debug, Default)]
struct Translator {
    /// The number of the current mapping.
    number: u16,
    used: Option<Instant>,
    on: bool,
}

/// A cable, which is cut on drop.
pub struct SoftwareCable {
    translator: Arc<Mutex<Translator>>,
    is_cut: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl SoftwareCable {
    /// Makes a cable between the first two namespaces, with the interfaces `va` and `vb`.
    ///
    /// # Errors
    /// If the kernel makes no TAP devices.
    pub fn lay_between(net: &Namespaces, faults: Faults, seed: u64) -> Result<Self> {
        let card = |side: usize, name: &'static str| -> Result<Arc<SyncDevice>> {
            Ok(Arc::new(net.run_within(side, move || make_card(name))??))
        };
        let cards = [card(0, "va")?, card(1, "vb")?];
        let mut cable =
            Self { translator: Arc::default(), is_cut: Arc::default(), threads: Vec::new() };
        for side in 0..2 {
            let [from, to] = [side, 1 - side].map(|at: usize| Arc::clone(&cards[at]));
            let translator = Arc::clone(&cable.translator);
            let is_cut = Arc::clone(&cable.is_cut);
            let mut dice = ChaCha20Rng::seed_from_u64(seed ^ side as u64);
            cable.threads.push(std::thread::spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while !is_cut.load(Ordering::Relaxed) {
                    let Some(frame) = next_frame(&from, &mut buffer) else { continue };
                    let is_lost = dice.next_u32() % 1_000 < faults.loss_permille;
                    let mut translator = translator.lock().unwrap_or_else(PoisonError::into_inner);
                    let passes =
                        !is_lost && translator.translate_frame(frame, side, Instant::now());
                    drop(translator);
                    if passes {
                        // If the card's queue is full, the frame is lost.
                        let _ = to.send(frame);
                    }
                }
            }));
        }
        Ok(cable)
    }

    /// Activates the translator.
    pub fn start_translating(&self) {
        self.translator.lock().unwrap_or_else(PoisonError::into_inner).on = true;
    }

    /// Makes the translator forget its mapping: the next datagram of A gets another port.
    pub fn forget_mapping(&self) {
        self.translator.lock().unwrap_or_else(PoisonError::into_inner).forget_mapping();
    }
}

impl Drop for SoftwareCable {
    fn drop(&mut self) {
        self.is_cut.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn make_card(name: &str) -> std::io::Result<SyncDevice> {
    let built = DeviceBuilder::new().name(name).layer(Layer::L2).with(|builder| {
        builder.packet_information(false);
    });
    let card = built.build_sync()?;
    card.enabled(true)?;
    card.set_nonblocking(true)?;
    Ok(card)
}

/// Waits briefly for a frame.
fn next_frame<'a>(card: &SyncDevice, buffer: &'a mut [u8]) -> Option<&'a mut [u8]> {
    if let Ok(bytes) = card.recv(buffer) {
        return Some(&mut buffer[..bytes]);
    }
    let mut polled = [PollFd::new(card.as_fd(), PollFlags::POLLIN)];
    let _ = poll(&mut polled, PollTimeout::from(LOOK_MS));
    None
}

impl Translator {
    /// Translates a frame of a side. Returns false if its mapping does not exist.
    fn translate_frame(&mut self, frame: &mut [u8], side: usize, now: Instant) -> bool {
        let Some(udp) = self.on.then(|| udp_at(frame)).flatten() else { return true };
        if self.used.is_some_and(|used| now.duration_since(used) >= MAPPING) {
            self.forget_mapping();
        }
        let outer = FIRST_PORT + self.number % PORTS;
        let is_mapped = self.used.is_some();
        let field = if side == 0 { udp } else { udp + 2 };
        let port = u16::from_be_bytes([frame[field], frame[field + 1]]);
        let fresh = match side {
            0 if port == LINK_PORT => outer,
            1 if port == outer && is_mapped => LINK_PORT,
            1 => return port != LINK_PORT && !(FIRST_PORT..FIRST_PORT + PORTS).contains(&port),
            _ => return true,
        };
        self.used = Some(now);
        frame[field..field + 2].copy_from_slice(&fresh.to_be_bytes());
        // A checksum of zero means no checksum (RFC 768).
        frame[udp + 6..udp + 8].fill(0);
        true
    }

    fn forget_mapping(&mut self) {
        self.number = self.number.wrapping_add(1);
        self.used = None;
    }
}

/// Returns the offset of the UDP header in a frame with IPv4, or `None`.
fn udp_at(frame: &[u8]) -> Option<usize> {
    let is_ip4 = frame.get(12..14) == Some(&[8, 0]) && frame.get(IP_AT)? >> 4 == 4;
    let is_udp = frame.get(IP_AT + 9) == Some(&17);
    let is_first = u16::from_be_bytes([*frame.get(IP_AT + 6)?, *frame.get(IP_AT + 7)?]) & 0x1fff;
    let at = IP_AT + 4 * usize::from(frame.get(IP_AT)? & 15);
    (is_ip4 && is_udp && is_first == 0 && frame.len() >= at + 8).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(from: u16, to: u16) -> Vec<u8> {
        let mut frame = vec![0; IP_AT + 20 + 8 + 4];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[IP_AT] = 0x45;
        frame[IP_AT + 9] = 17;
        frame[IP_AT + 20..IP_AT + 22].copy_from_slice(&from.to_be_bytes());
        frame[IP_AT + 22..IP_AT + 24].copy_from_slice(&to.to_be_bytes());
        frame[IP_AT + 26..IP_AT + 28].fill(9);
        frame
    }

    fn ports(frame: &[u8]) -> [u16; 2] {
        [0, 2].map(|at| u16::from_be_bytes([frame[IP_AT + 20 + at], frame[IP_AT + 21 + at]]))
    }

    #[test]
    fn a_translator_answers_who_was_spoken_to_and_forgets_in_30_seconds() {
        let mut translator = Translator { on: true, ..Translator::default() };
        let begin = Instant::now();
        let at = |s: u64| begin + Duration::from_secs(s);
        // No datagram has left yet.
        assert!(!translator.translate_frame(&mut datagram(LINK_PORT, LINK_PORT), 1, at(0)));
        assert!(!translator.translate_frame(&mut datagram(LINK_PORT, FIRST_PORT), 1, at(0)));
        let mut out = datagram(LINK_PORT, LINK_PORT);
        assert!(translator.translate_frame(&mut out, 0, at(1)));
        assert_eq!((ports(&out), &out[40..42]), ([FIRST_PORT, LINK_PORT], &[0, 0][..]));
        let mut back = datagram(LINK_PORT, FIRST_PORT);
        assert!(translator.translate_frame(&mut back, 1, at(30)));
        assert_eq!(ports(&back), [LINK_PORT, LINK_PORT]);
        // A response keeps the mapping; silence ends it.
        assert!(!translator.translate_frame(&mut datagram(LINK_PORT, FIRST_PORT), 1, at(60)));
        let mut out = datagram(LINK_PORT, LINK_PORT);
        assert!(translator.translate_frame(&mut out, 0, at(61)));
        assert_eq!(ports(&out)[0], FIRST_PORT + 1);
    }

    #[test]
    fn other_ports_and_frames_pass_as_they_are() {
        let mut translator = Translator { on: true, ..Translator::default() };
        for side in 0..2 {
            let mut frame = datagram(5_000, 5_001);
            assert!(translator.translate_frame(&mut frame, side, Instant::now()));
            assert_eq!(frame, datagram(5_000, 5_001));
            assert!(translator.translate_frame(&mut [0xff; 20], side, Instant::now()));
        }
    }
}
