//! The bytes of `vectors/seka`, which `reference.py` makes out of the document alone.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use mezza_core::{EphemeralKey, Machine, PortableBackend, Secret, Time};
use mezza_seka::keys::CanonicalPoint;
use mezza_seka::sas::{SasDigits, compute_commitment};
use mezza_seka::stream::{RecordType, Records};
use mezza_seka::suite::LinkSuite;
use mezza_seka::suite::default::DefaultSuite;
use mezza_seka::suite::paper::PaperSuite;
use mezza_seka::wire::kind_of;
use mezza_seka::{
    LinkRole, LinkSession, Pairing, PairingInput, PairingOutput, PairingSettings, PeerAddress,
    PeerInput, PeerOutput, Sealer,
};
use mezza_testing::Constant;

use crate::stage::{id, store_key};

type Case = BTreeMap<&'static str, Vec<u8>>;

fn case(text: &'static str) -> Case {
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(key, hex)| (key, HEXLOWER.decode(hex.as_bytes()).expect("hex"))).collect()
}

/// A pairing and its first exchange with the keys of the vectors: all frames, and the sessions.
struct Run<S: LinkSuite> {
    windows: [Pairing<S>; 2],
    keys: [Vec<u8>; 2],
    frames: Vec<Vec<u8>>,
    sessions: Vec<(usize, LinkSession)>,
    dull: Constant,
}

impl<S: LinkSuite> Run<S> {
    fn new() -> Self {
        let mut dull = Constant(0x5b);
        let windows = [LinkRole::Initiator, LinkRole::Responder].map(|role| {
            let byte = if role == LinkRole::Initiator { 1 } else { 2 };
            let mut settings = PairingSettings::new(id(byte), "cam1", byte.into());
            settings.role = Some(role);
            Pairing::open_window(settings, store_key(), Time::from_ms(0), 0, &mut dull)
        });
        // Taken from the end: the ephemerals of pairing, of the exchange, and one that lies ready.
        let keys = [vec![0xe1, 0xc1, 0xb1], vec![0xe2, 0xc2, 0xb2]];
        Self { windows, keys, frames: Vec::new(), sessions: Vec::new(), dull }
    }

    fn give(&mut self, at: usize, input: PairingInput, now: Time) {
        let _ = self.windows[at].handle(input, now, &mut self.dull);
        while let Some(output) = self.windows[at].poll() {
            match output {
                PairingOutput::Want | PairingOutput::Peer(PeerOutput::Want) => {
                    let byte = self.keys[at].pop().expect("a key");
                    let scalar = Secret::init_with(|bytes| bytes.fill(byte));
                    let key = EphemeralKey::from_scalar::<PortableBackend>(scalar);
                    // The second draw of chance is that of the exchange.
                    self.dull = Constant(if byte & 0xf0 == 0xb0 { 0x5b } else { 0x5c });
                    self.give(at, PairingInput::Give(key), now);
                }
                PairingOutput::Send { frame, .. } => {
                    if !self.frames.contains(&frame) {
                        self.frames.push(frame.clone());
                    }
                    let from = PeerAddress([1; 20]);
                    let input = PairingInput::Datagram { frame, from, on_link: true };
                    self.give(1 - at, input, now);
                }
                PairingOutput::Peer(PeerOutput::Store { seq, .. }) => {
                    self.give(at, PairingInput::Peer(PeerInput::Stored(seq)), now);
                }
                PairingOutput::Peer(PeerOutput::Install(session)) => {
                    self.sessions.push((at, *session));
                }
                _ => {}
            }
        }
    }

    fn run(mut self) -> Self {
        for ms in (0..4_000).step_by(10) {
            let now = Time::from_ms(ms);
            for at in 0..2 {
                if self.windows[at].deadline().is_some_and(|due| due <= now) {
                    self.windows[at].wake(now, &mut self.dull);
                    self.give(at, PairingInput::Peer(PeerInput::Carrier(false)), now);
                }
            }
        }
        self
    }

    fn frame(&self, kind: u8) -> &[u8] {
        let mut frames = self.frames.iter();
        frames.find(|frame| kind_of(frame) == Some(kind)).expect("a frame of this kind")
    }
}

/// Pairing, exchange, state and a protected frame, byte for byte.
fn holds<S: LinkSuite>(case: &Case) -> LinkSession {
    let run = Run::<S>::new().run();
    for (name, kind) in [("b1", 0x10), ("b2", 0x11), ("ke1", 0x15), ("ke2", 0x16), ("ke3", 0x17)] {
        assert_eq!(run.frame(kind), case[name], "{name} of suite {}", S::NAME);
    }
    let mut windows = run.windows.into_iter();
    let mut sessions = run.sessions;
    let (peer, _) = windows.next().and_then(Pairing::into_peer).expect("paired");
    let state = &case["st1"];
    assert_eq!(peer.stolen_states().0[..state.len()], state[..]);
    let at = sessions.iter().position(|(at, _)| *at == 0).expect("a session");
    let (_, session) = sessions.swap_remove(at);
    assert_eq!(session.export_key("test").expose()[..], case["export_test"]);
    let text = &case["text"];
    let mut frame = vec![0; 24 + text.len()];
    frame[8..8 + text.len()].copy_from_slice(text);
    Sealer::<S::Frames>::default().seal(&session, 0x0001_0003, &mut frame);
    assert_eq!(frame, case["data"]);
    session
}

#[test]
fn the_default_suite_makes_the_bytes_of_the_reference() {
    let case = case(include_str!("../../../../vectors/seka/pair-default.txt"));
    let session = holds::<DefaultSuite<PortableBackend>>(&case);
    let mut records = Records::<<DefaultSuite<PortableBackend> as LinkSuite>::Frames>::new(session);
    let record = records.seal(RecordType::Data, b"hello").expect("sealed");
    assert_eq!(record, case["record"]);
}

#[test]
fn suite_paper_makes_the_bytes_of_the_reference() {
    let case = case(include_str!("../../../../vectors/seka/pair-paper.txt"));
    holds::<PaperSuite<PortableBackend>>(&case);
}

#[test]
fn digits_and_commitment_are_those_of_the_reference() {
    let case = case(include_str!("../../../../vectors/seka/digits.txt"));
    let digits = SasDigits::from_frames(&case["s1"], &case["s2"], &case["s3"]);
    assert_eq!(format!("{:06}", digits.number()).as_bytes(), case["digits"]);
    assert_eq!(digits.to_string(), "907 345");
    let m1 = CanonicalPoint::from_canonical(*case["s3"][36..].first_chunk().expect("a point"));
    let coins = case["s3"][68..].first_chunk().expect("coins");
    assert_eq!(
        compute_commitment(&case["s1"], &m1.expect("canonical"), coins)[..],
        case["s1"][36..]
    );
}
