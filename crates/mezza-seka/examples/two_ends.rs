//! Two devices on one cable: a button on each, an exchange, a frame of traffic.
//!
//! `cargo run -p mezza-seka --example two_ends` prints every frame with its arrow.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a program that shows")]

use mezza_core::{EphemeralKey, Machine, PortableBackend, Secret, Time};
use mezza_seka::suite::LinkSuite;
use mezza_seka::suite::default::DefaultSuite;
use mezza_seka::wire::kind_of;
use mezza_seka::{
    LinkId, LinkRole, LinkSession, Opener, Pairing, PairingInput, PairingOutput, PairingSettings,
    PeerAddress, PeerInput, PeerOutput, Sealer, StoreKey,
};
use mezza_sim::SimRng;

type Suite = DefaultSuite<PortableBackend>;
type Frames = <Suite as LinkSuite>::Frames;

/// One device: the machine, and what a program around it does.
struct Device {
    pairing: Pairing<Suite>,
    rng: SimRng,
    /// Frames for the other side.
    sent: Vec<Vec<u8>>,
    session: Option<LinkSession>,
}

impl Device {
    fn new(byte: u8, role: LinkRole) -> Self {
        let mut rng = SimRng::new(byte.into(), 0);
        let own = LinkId::from_bytes([2, 0, 0, 0, 0, byte]).expect("a unicast name");
        let mut settings = PairingSettings::new(own, "cable", byte.into());
        settings.role = Some(role);
        let key = StoreKey::new(Secret::random(rng.rng()));
        let pairing = Pairing::open_window(settings, key, Time::from_ms(0), 0, rng.rng());
        Self { pairing, rng, sent: Vec::new(), session: None }
    }

    fn hear(&mut self, frame: Vec<u8>, now: Time) {
        let from = PeerAddress::default();
        let input = PairingInput::Datagram { frame, from, on_link: true };
        let _ = self.pairing.handle(input, now, self.rng.rng());
        self.drain(now);
    }

    /// Carries out the outputs of the state machine: draws keys from the generator, and confirms
    /// each write at once.
    fn drain(&mut self, now: Time) {
        while let Some(output) = self.pairing.poll() {
            let answer = match output {
                PairingOutput::Want | PairingOutput::Peer(PeerOutput::Want) => {
                    PairingInput::Give(EphemeralKey::random::<PortableBackend>(self.rng.rng()))
                }
                PairingOutput::Peer(PeerOutput::Store { seq, .. }) => {
                    PairingInput::Peer(PeerInput::Stored(seq))
                }
                PairingOutput::Peer(PeerOutput::Install(session)) => {
                    self.session = Some(*session);
                    continue;
                }
                PairingOutput::Send { frame, .. } => {
                    self.sent.push(frame);
                    continue;
                }
                PairingOutput::Done => {
                    println!("  {:?}: paired", self.role());
                    continue;
                }
                _ => continue,
            };
            let _ = self.pairing.handle(answer, now, self.rng.rng());
        }
    }

    fn role(&self) -> LinkRole {
        if self.pairing.is_initiator() { LinkRole::Initiator } else { LinkRole::Responder }
    }
}

fn main() {
    let mut devices = [Device::new(1, LinkRole::Initiator), Device::new(2, LinkRole::Responder)];
    for ms in (0..4_000).step_by(10) {
        let now = Time::from_ms(ms);
        for device in &mut devices {
            device.pairing.wake(now, device.rng.rng());
            device.drain(now);
        }
        for from in 0..2 {
            for frame in std::mem::take(&mut devices[from].sent) {
                // B1 ->, <- B2; KE1 ->, <- KE2, KE3 ->.
                let arrow = if from == 0 { "I ---> R" } else { "I <--- R" };
                println!("{ms:>5} ms  {arrow}  {:<4} {} bytes", name(&frame), frame.len());
                devices[1 - from].hear(frame, now);
            }
        }
    }
    let [one, two] = devices.map(|device| device.session.expect("an exchange was accepted"));
    // DATA: the text lies between a header of 8 bytes and a tag of 16.
    let text = b"\0an Ethernet frame";
    let mut frame = vec![0; 8 + text.len() + 16];
    frame[8..8 + text.len()].copy_from_slice(text);
    let packet = one.reserve_packets(1).expect("far from the limit");
    Sealer::<Frames>::default().seal(&one, packet, &mut frame);
    println!("           I ---> R  DATA {} bytes, packet {packet}", frame.len());
    let (_, opened) =
        Opener::<Frames>::default().open(&two, &mut frame).expect("both have the same key");
    assert_eq!(opened, text);
}

/// The name of a frame.
fn name(frame: &[u8]) -> &'static str {
    match kind_of(frame) {
        Some(0x10) => "B1",
        Some(0x11) => "B2",
        Some(0x15) => "KE1",
        Some(0x16) => "KE2",
        Some(0x17) => "KE3",
        _ => "DATA",
    }
}
