//! Exchanges of a link with both sides in one process, and operations for comparison.
//!
//! ```text
//! bootstrap-default bootstrap-paper   both keys, both products, both first states
//! exchange-default  exchange-paper    KE1, KE2, KE3 through both machines, with the records they seal
//! limit                               two key generations and two products of X25519
//! junk-default  junk-paper            a KE1 of the right name whose tag fits neither state
//! hmac-two  gmac-two                  two tags of 80 bytes under keys that are set up
//! ```

use std::hint::black_box;

use anyhow::{Context as _, Result, bail};
use hmac::{Hmac, KeyInit as _, Mac as _};
use mezza::testing::backend::AwsLc;
use mezza_core::{AeadKey as _, CryptoRng, EphemeralKey, Machine as _, Secret, Time};
use mezza_seka::backend::LinkBackend;
use mezza_seka::keys::{CanonicalPoint, LinkPair};
use mezza_seka::suite::default::DefaultSuite;
use mezza_seka::suite::paper::PaperSuite;
use mezza_seka::suite::{ExchangeView, FrameKey as _, LinkSuite};
use mezza_seka::wire::{HandshakeFrame as _, Ke1, Ke3, kind_of};
use mezza_seka::{
    LinkId, LinkRole, Pairing, PairingInput, PairingOutput, PairingSettings, Peer, PeerAddress,
    PeerInput, PeerOutput, StoreKey,
};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;
use sha2::Sha512;

use mezza_lab_measuring::rate::Call;

/// Bytes that a tag covers.
const TAGGED_BYTES: usize = 80;

/// Prepares one call of `op`.
///
/// # Errors
/// An unknown name, or a failed pairing.
pub fn prepare_call(op: &str) -> Result<Call> {
    match op {
        "exchange-default" => prepare_exchange::<DefaultSuite<AwsLc>>(),
        "exchange-paper" => prepare_exchange::<PaperSuite<AwsLc>>(),
        "exchange-default-portable" => {
            prepare_exchange::<DefaultSuite<mezza_core::PortableBackend>>()
        }
        "bootstrap-default" => prepare_bootstrap::<DefaultSuite<AwsLc>>(),
        "bootstrap-paper" => prepare_bootstrap::<PaperSuite<AwsLc>>(),
        "limit" => Ok(prepare_limit()),
        "junk-default" => prepare_junk::<DefaultSuite<AwsLc>>(),
        "junk-paper" => prepare_junk::<PaperSuite<AwsLc>>(),
        "hmac-two" => Ok(hmac_two()),
        "gmac-two" => Ok(gmac_two()),
        _ => bail!("no operation {op}"),
    }
}

/// Both ends of a pairing, with disks that respond at once.
struct Pair<S: LinkSuite> {
    peers: [Peer<S>; 2],
    rng: ChaCha20Rng,
    /// Frames under way, with the number of the receiver.
    wire: Vec<(usize, Vec<u8>)>,
    now: Time,
}

impl<S: LinkSuite> Pair<S> {
    fn new() -> Result<Self> {
        let mut rng = ChaCha20Rng::seed_from_u64(5);
        let mut windows = [LinkRole::Initiator, LinkRole::Responder].map(|role| {
            let byte = if role == LinkRole::Initiator { 1 } else { 2 };
            let own = LinkId::from_bytes([2, 0, 0, 0, 0, byte])
                .unwrap_or_else(|| LinkId::random(&mut rng));
            let mut settings = PairingSettings::new(own, "lab", byte.into());
            settings.role = Some(role);
            settings.peer_settings.exchange_ms = 0;
            let key = StoreKey::new(Secret::random(&mut rng));
            Pairing::<S>::open_window(settings, key, Time::from_ms(0), 0, &mut rng)
        });
        for ms in (0..5_000).step_by(10) {
            let now = Time::from_ms(ms);
            let mut wire = Vec::new();
            for (at, window) in windows.iter_mut().enumerate() {
                window.wake(now, &mut rng);
                drain_pairing(window, &mut wire, 1 - at, now, &mut rng);
            }
            while let Some((to, frame)) = wire.pop() {
                let input =
                    PairingInput::Datagram { frame, from: PeerAddress([1; 20]), on_link: true };
                let _ = windows[to].handle(input, now, &mut rng);
                drain_pairing(&mut windows[to], &mut wire, 1 - to, now, &mut rng);
            }
        }
        let [one, two] = windows.map(Pairing::into_peer);
        let one = one.context("not paired")?.0;
        let two = two.context("not paired")?.0;
        let mut pair =
            Self { peers: [one, two], rng, wire: Vec::new(), now: Time::from_ms(10_000) };
        (0..2).for_each(|at| pair.drain_outputs(at));
        Ok(pair)
    }

    fn give_input(&mut self, at: usize, input: PeerInput) {
        let _ = self.peers[at].handle(input, self.now, &mut self.rng);
        self.drain_outputs(at);
    }

    fn drain_outputs(&mut self, at: usize) {
        while let Some(output) = self.peers[at].poll() {
            match output {
                PeerOutput::Want => {
                    let key = EphemeralKey::random::<S::Backend>(&mut self.rng);
                    let _ = self.peers[at].handle(PeerInput::Give(key), self.now, &mut self.rng);
                }
                PeerOutput::Store { seq, .. } => {
                    let _ = self.peers[at].handle(PeerInput::Stored(seq), self.now, &mut self.rng);
                }
                PeerOutput::Send { frame, .. } => self.wire.push((1 - at, frame)),
                PeerOutput::Use(attempt) if at == 1 => {
                    // Stands for the responder's keep-alive, which has no frame here.
                    let _ =
                        self.peers[0].handle(PeerInput::Fresh(attempt), self.now, &mut self.rng);
                }
                _ => {}
            }
        }
    }

    /// Runs one exchange; frames for which `passes` returns false are lost.
    fn run_exchange(&mut self, passes: impl Fn(&[u8]) -> bool) {
        self.now = self.now.plus_ms(5);
        self.give_input(0, PeerInput::Rekey);
        while let Some((to, frame)) = self.wire.pop() {
            if passes(&frame) {
                self.give_input(to, PeerInput::Datagram { frame, from: PeerAddress::default() });
            }
        }
    }
}

fn drain_pairing<S: LinkSuite>(
    window: &mut Pairing<S>,
    wire: &mut Vec<(usize, Vec<u8>)>,
    to: usize,
    now: Time,
    rng: &mut dyn CryptoRng,
) {
    while let Some(output) = window.poll() {
        match output {
            PairingOutput::Want | PairingOutput::Peer(PeerOutput::Want) => {
                let key = EphemeralKey::random::<S::Backend>(rng);
                let _ = window.handle(PairingInput::Give(key), now, rng);
            }
            PairingOutput::Send { frame, .. } => wire.push((to, frame)),
            PairingOutput::Peer(PeerOutput::Store { seq, .. }) => {
                let _ = window.handle(PairingInput::Peer(PeerInput::Stored(seq)), now, rng);
            }
            _ => {}
        }
    }
}

fn prepare_exchange<S: LinkSuite>() -> Result<Call> {
    let mut pair = Pair::<S>::new()?;
    let before = pair.peers[1].record().rekeys;
    pair.run_exchange(|_| true);
    if pair.peers[1].record().rekeys != before + 1 {
        bail!("an exchange was not accepted");
    }
    Ok(Box::new(move |_| pair.run_exchange(|_| true)))
}

/// Measures sealing and opening of a frame of `bytes` bytes: CPU time, us.
///
/// # Errors
/// If the clock cannot be read.
pub fn frame_cost_us(bytes: usize) -> Result<f64> {
    let mut text = vec![0x21; bytes];
    frames_cost_us(|key| {
        let tag = key.seal(&[9; 12], &[1; 8], &mut text);
        key.open(&[9; 12], &[1; 8], &mut text, &tag)
    })
}

/// Measures making and checking the tag of a plaintext frame: GMAC with the same key, CPU time, us.
/// The product's link has no such mode.
///
/// # Errors
/// If the clock cannot be read.
pub fn tag_cost_us(bytes: usize) -> Result<f64> {
    let plain = vec![0x21; 8 + bytes];
    frames_cost_us(|key| {
        let tag = key.seal(&[9; 12], &plain, &mut []);
        key.open(&[9; 12], &plain, &mut [], &tag)
    })
}

/// The frame keys of the default suite.
type Frames = <DefaultSuite<AwsLc> as LinkSuite>::Frames;

/// Measures the CPU time of one call, us. A call returns true if the frame was opened.
fn frames_cost_us(mut call: impl FnMut(&Frames) -> bool) -> Result<f64> {
    const FRAMES: u32 = 2_000;
    let key = Frames::from_subkey(&Secret::init_with(|key| key.fill(7)));
    let (opened, ns) = crate::clock::cost_ns(|| (0..FRAMES).all(|_| call(&key)))?;
    if !opened {
        bail!("a frame does not open");
    }
    Ok(ns / f64::from(FRAMES) / 1e3)
}

fn prepare_limit() -> Call {
    let mut rng = ChaCha20Rng::seed_from_u64(6);
    Box::new(move |_| {
        let one = EphemeralKey::random::<AwsLc>(&mut rng);
        let two = EphemeralKey::random::<AwsLc>(&mut rng);
        let first = *one.public_key();
        let second = *two.public_key();
        let _ =
            black_box((one.diffie_hellman::<AwsLc>(&second), two.diffie_hellman::<AwsLc>(&first)));
    })
}

/// Prepares the computations of both sides of a Bootstrap.
fn prepare_bootstrap<S: LinkSuite>() -> Result<Call> {
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    let id = |byte| LinkId::from_bytes([2, 0, 0, 0, 0, byte]).context("a name");
    let pair = LinkPair { initiator: id(1)?, responder: id(2)? };
    Ok(Box::new(move |_| {
        let one = EphemeralKey::random::<S::Backend>(&mut rng);
        let two = EphemeralKey::random::<S::Backend>(&mut rng);
        let points =
            [&one, &two].map(|key| CanonicalPoint::from_canonical(*key.public_key().as_bytes()));
        let [Some(m1), Some(m2)] = points else { return };
        let session_id = S::session_id(&pair.initiator, &m1, &mut rng);
        let view = ExchangeView { pair: &pair, session_id: &session_id, m1: &m1, m2: &m2 };
        let shared = [
            one.diffie_hellman::<S::Backend>(m2.public()),
            two.diffie_hellman::<S::Backend>(m1.public()),
        ];
        let _ = black_box(shared.map(|dh| dh.map(|dh| S::derive_first_state(&dh, &view))));
    }))
}

/// Prepares a junk frame for a responder with a pending state, so that both tags are computed.
fn prepare_junk<S: LinkSuite>() -> Result<Call> {
    let mut pair = Pair::<S>::new()?;
    pair.run_exchange(|frame| kind_of(frame) != Some(Ke3::KIND));
    let own = pair.peers[0].record().own;
    let peer = pair.peers[1].record().own;
    let mut frame = vec![0x21; Ke1::BYTES];
    frame[..8].copy_from_slice(&[1, Ke1::KIND, S::NUMBER, 0, 0, 0, 1, 9]);
    frame[8..14].copy_from_slice(own.as_bytes());
    frame[14..20].copy_from_slice(peer.as_bytes());
    // A fresh number that suite `paper` still accepts.
    frame[36..40].copy_from_slice(&9_u32.to_be_bytes());
    if Ke1::decode(S::NUMBER, &frame).is_err() {
        bail!("the frame does not reach the tags");
    }
    Ok(Box::new(move |_| {
        let input = PeerInput::Datagram { frame: frame.clone(), from: PeerAddress::default() };
        let _ = black_box(pair.peers[1].handle(input, pair.now, &mut pair.rng));
    }))
}

fn hmac_two() -> Call {
    let key =
        Hmac::<Sha512>::new_from_slice(&[7; 32]).unwrap_or_else(|_| unreachable!("any length"));
    let text = [0x21; TAGGED_BYTES];
    Box::new(move |_| {
        for _ in 0..2 {
            let mut mac = key.clone();
            mac.update(black_box(&text));
            black_box(mac.finalize());
        }
    })
}

fn gmac_two() -> Call {
    let keys = [7, 8].map(|byte| <AwsLc as LinkBackend>::Gcm128::new(&[byte; 16]));
    let text = [0x21; TAGGED_BYTES];
    Box::new(move |_| {
        for key in &keys {
            black_box(key.seal(&[9; 12], black_box(&text), &mut []));
        }
    })
}
