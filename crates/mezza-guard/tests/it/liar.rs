//! A guard that lies to an honest client: the client closes, or has a key that no coin determines; it never
//! panics, and never uses one secret with two coins.

use mezza_core::{Machine as _, Time};
use mezza_guard::client::{GuardClient, GuardClientError, Input, Output};
use mezza_guard::coin::{CoinEncoding, CoinKey, CoinPurpose, Rho, SlotIndex, SlotName};
use mezza_guard::gkx::GkxGuard;
use mezza_guard::guard::{GuardConnection, HANDSHAKE_MS_MAX};
use mezza_guard::keys::PairingKey;
use mezza_guard::wire::control::{Control, ControlChannel, GuardMode, RefusalCode, SlotValue};
use mezza_sim::{SimRng, handle_checked};

use crate::link::pairing;

const CONN: GuardConnection = GuardConnection(1);
const NOW: Time = Time::from_ms(5_000);

/// An honest client, and whoever plays its guard.
struct Liar {
    client: GuardClient,
    channel: Option<ControlChannel>,
    dice: SimRng,
    points: Vec<[u8; 32]>,
    keys: usize,
    is_closed: bool,
}

fn slot() -> SlotIndex {
    let name =
        SlotName { client: pairing(1).client_id(), purpose: CoinPurpose::LinkDialling, dest: 1 };
    SlotIndex { name, index: 4 }
}

fn rho(index: u64) -> Rho {
    let key = CoinKey::from_secret(mezza_core::Secret::init_with(|key| key.fill(3)));
    key.derive_rho(&SlotIndex { index, ..slot() })
}

fn value(value: [u8; 32]) -> SlotValue {
    SlotValue::for_slot(&slot(), value)
}

impl Liar {
    /// A client that has dialled and had its HELLO.
    fn new(seed: u64) -> Self {
        let client = GuardClient::new(pairing(1), CoinEncoding::Ristretto);
        let points = Vec::new();
        let dice = SimRng::new(seed, 0);
        let mut liar = Self { client, channel: None, dice, points, keys: 0, is_closed: false };
        liar.dial(CONN);
        liar
    }

    fn dial(&mut self, conn: GuardConnection) {
        self.give(Input::Dial(conn, GuardMode::Coins, 1)).expect("a new connection");
        self.channel = None;
        let mut hello = [0; 32];
        self.dice.rng().fill_bytes(&mut hello);
        let Some(Output::Send(_, hail)) = self.client.poll() else { panic!("no HAIL") };
        let Ok(Control::Hail { nonce, .. }) = Control::read_clear(&hail) else { panic!("no HAIL") };
        self.channel = Some(ControlChannel::of_guard(&pairing(1), &hello, &nonce));
        self.frame(conn, Control::Hello { nonce: hello }.encode_clear());
    }

    fn give(&mut self, input: Input) -> Result<(), GuardClientError> {
        handle_checked(&mut self.client, input, NOW, self.dice.rng())
    }

    fn frame(&mut self, conn: GuardConnection, frame: Vec<u8>) {
        let _ = self.give(Input::Frame(conn, frame));
        while let Some(output) = self.client.poll() {
            match output {
                Output::Send(_, frame) => {
                    let channel = self.channel.as_mut().expect("a channel");
                    if let Ok(Control::Point(point)) = channel.open(&frame) {
                        self.points.push(point.value);
                    }
                }
                Output::Key(..) => self.keys += 1,
                Output::Close(_) => self.is_closed = true,
                _ => {}
            }
        }
    }

    fn say(&mut self, conn: GuardConnection, control: &Control) {
        let frame = self.channel.as_mut().expect("a channel").seal(control);
        self.frame(conn, frame);
    }
}

/// Each lie ends the connection without a key.
#[test]
fn promise_4_a_guard_that_breaks_the_rules_ends_its_connection_only() {
    let h = rho(4).commitment(&slot());
    let coin = *rho(4).encode();
    let good = Control::Slot(value(h));
    let lies: [&[Control]; 8] = [
        // Another coin than the one that it committed to, another number, another purpose.
        &[good.clone(), Control::Coin(value(*rho(5).encode()))],
        &[good.clone(), Control::Coin(SlotValue { index: 5, ..value(coin) })],
        &[
            good.clone(),
            Control::Coin(SlotValue { purpose: CoinPurpose::LinkAnswering, ..value(coin) }),
        ],
        // No scalar at all.
        &[good.clone(), Control::Coin(value([0xff; 32]))],
        // A second slot, a coin before a slot, a slot of the other purpose, frames of a client.
        &[good.clone(), Control::Slot(value([9; 32]))],
        &[Control::Coin(value(coin))],
        &[Control::Slot(SlotValue { purpose: CoinPurpose::LinkAnswering, ..value(h) })],
        &[Control::Open { mode: GuardMode::Blind, dest: 1 }],
    ];
    for (number, lie) in lies.into_iter().enumerate() {
        let mut liar = Liar::new(number as u64);
        for control in lie {
            liar.say(CONN, control);
        }
        assert!(liar.is_closed && liar.keys == 0, "lie {number}");
    }
    // The same without a lie.
    let mut honest = Liar::new(99);
    honest.say(CONN, &good);
    honest.say(CONN, &Control::Coin(value(coin)));
    honest.say(CONN, &Control::Ready);
    assert!(!honest.is_closed && honest.keys == 1);
    // A second coin for a key that is in use.
    honest.say(CONN, &Control::Coin(value(coin)));
    assert!(honest.is_closed && honest.keys == 1);
}

/// One slot offered in two connections, or under another number, gives no second use of a secret.
#[test]
fn promise_4_no_guard_gets_one_secret_twice() {
    let h = rho(4).commitment(&slot());
    let mut liar = Liar::new(1);
    liar.say(CONN, &Control::Slot(value(h)));
    let two = GuardConnection(2);
    liar.dial(two);
    liar.say(two, &Control::Slot(value(h)));
    assert!(liar.is_closed && liar.points.len() == 1);
    // The first connection is gone: the same number with another commitment has another secret.
    liar.give(Input::Closed(CONN)).expect("known");
    let three = GuardConnection(3);
    liar.dial(three);
    liar.say(three, &Control::Slot(value([7; 32])));
    liar.points.dedup();
    assert_eq!(liar.points.len(), 2);
    // The old commitment under another number.
    liar.give(Input::Closed(three)).expect("known");
    let four = GuardConnection(4);
    liar.dial(four);
    liar.is_closed = false;
    liar.say(four, &Control::Slot(SlotValue { index: 9, ..value([7; 32]) }));
    assert!(liar.is_closed);
}

/// Silence, refusals and garbage: the client waits ten seconds, or closes.
#[test]
fn a_guard_that_dies_harms_nobody() {
    let mut liar = Liar::new(2);
    liar.say(CONN, &Control::Refused(RefusalCode::Busy));
    assert!(!liar.is_closed && liar.keys == 0);
    assert_eq!(liar.client.deadline(), Some(NOW.plus_ms(HANDSHAKE_MS_MAX)));
    liar.client.wake(NOW.plus_ms(HANDSHAKE_MS_MAX), liar.dice.rng());
    assert!(matches!(liar.client.poll(), Some(Output::Close(_))));
    for garbage in [
        vec![],
        vec![1],
        vec![1, 0x73, 0, 0],
        vec![0xff; 300],
        Control::Hello { nonce: [0; 32] }.encode_clear(),
    ] {
        let mut liar = Liar::new(3);
        liar.frame(CONN, garbage);
        assert!(liar.is_closed && liar.keys == 0);
    }
    assert_eq!(liar.give(Input::Answered(CONN)), Err(GuardClientError::UnknownConnection));
}

#[test]
fn a_session_of_gkx_is_small_and_secrets_are_silent() {
    assert!(size_of::<GkxGuard>() <= 168, "{}", size_of::<GkxGuard>());
    let planted = mezza_core::Secret::init_with(|key| key.fill(0xa7));
    let pairing = PairingKey::from_secret(planted.duplicate());
    let key = CoinKey::from_secret(planted);
    let rho = key.derive_rho(&slot());
    let channel = ControlChannel::of_guard(&pairing, &[1; 32], &[2; 32]);
    let shown = format!("{pairing:?} {key:?} {rho:?} {channel:?} {:?}", pairing.client_id());
    assert_eq!(shown, "PairingKey CoinKey Rho ControlChannel GuardClientId");
}
