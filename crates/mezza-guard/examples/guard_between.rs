//! A guard between a client and a peer, in memory: one key exchange, and the audit of the rules.
//!
//! `cargo run -p mezza-guard --example guard_between` prints each field of each frame before and after
//! the guard. The guard changes every random value. It does not change the tags, which depend on the
//! shared secret, and both ends still compute equal keys.
//!
//! The client uses blind mode: it runs GKX with the peer and is not aware of the guard. The audit covers
//! the other mode, in which client and guard make a key together ("coins"). It counts the bits that a
//! tampered client could still hide in a handshake under the rules of this example.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a demonstration that prints")]

use std::collections::BTreeMap;

use mezza_core::{Machine, PortableBackend, Secret, StaticKey, Time};
use mezza_guard::Ristretto;
use mezza_guard::audit::{ChannelBits, Surroundings, audit_table, protection_level};
use mezza_guard::coin::{CoinEncoding, CoinKey, CoinPurpose};
use mezza_guard::coins::Uniform;
use mezza_guard::gkx::{GkxCandidate, GkxInitiator, GkxResponder};
use mezza_guard::guard::{
    Destination, Guard, GuardClientSettings, GuardConnection, GuardSettings, GuardSide, Input,
    Opening, Output, StrictPolicy,
};
use mezza_guard::keys::PairingKey;
use mezza_guard::ledger::SlotLedger;
use mezza_guard::rule::{Check, Field, FrameRule, RuleTable};
use mezza_guard::wire::control::GuardMode;
use mezza_sim::SimRng;

const CONNECTION: GuardConnection = GuardConnection(1);
const DESTINATION: u16 = 1;
const NOW: Time = Time::from_ms(1_000);
const X25519: CoinEncoding = CoinEncoding::X25519;

/// The rules of a handshake of three frames. The fields of a rule cover its frame without a gap.
const RULES: [FrameRule; 3] = [
    FrameRule {
        kind: 0x15,
        bytes: 54,
        fields: &[
            Field::new(0, 2, Check::Constant(&[1, 0x15])),
            Field::new(2, 4, Check::Counter),
            Field::new(6, 32, Check::Element(X25519, CoinPurpose::LinkDialling)),
            Field::new(38, 16, Check::Mac),
        ],
    },
    FrameRule {
        kind: 0x16,
        bytes: 54,
        fields: &[
            Field::new(0, 2, Check::Constant(&[1, 0x16])),
            Field::new(2, 4, Check::Echo(2)),
            Field::new(6, 32, Check::Element(X25519, CoinPurpose::LinkAnswering)),
            Field::new(38, 16, Check::Mac),
        ],
    },
    FrameRule {
        kind: 0x17,
        bytes: 18,
        fields: &[Field::new(0, 2, Check::Constant(&[1, 0x17])), Field::new(2, 16, Check::Mac)],
    },
];

/// The guard, and the work of the program around it.
struct Driver {
    guard: Guard,
    /// The bytes of the ledger file.
    ledger: Vec<u8>,
    rng: SimRng,
}

impl Driver {
    /// Sends one frame through the guard and prints its fields. Returns the frame that leaves on the other
    /// side.
    fn pass_frame(&mut self, from: GuardSide, frame: &[u8], fields: &[(&str, usize)]) -> Vec<u8> {
        let input = Input::Frame(CONNECTION, from, frame.to_vec());
        self.guard.handle(input, NOW, self.rng.rng()).expect("an open connection");
        let mut passed = None;
        while let Some(output) = self.guard.poll() {
            match output {
                // A program syncs the record to its disk before it carries out the next output.
                Output::Persist(_, record) => self.ledger.extend(record.encode()),
                Output::Dial(connection, _) => {
                    let dialled = Input::Dialled(connection);
                    self.guard.handle(dialled, NOW, self.rng.rng()).expect("the guard dialled");
                }
                Output::Send(_, side, frame) if side != from => passed = Some(frame),
                Output::Pump(_) => println!("  The handshake is over: records pass from now on."),
                output => println!("  {output:?}"),
            }
        }
        let passed = passed.expect("the guard accepts the frame");
        // A frame begins with two bytes: version and kind.
        let mut at = 2;
        for (name, bytes) in fields {
            let [before, after] = [frame, &passed].map(|frame| &frame[at..at + bytes]);
            let verdict = if before == after { "equal" } else { "changed" };
            let [old, new] = [before, after].map(start_of);
            println!("  G{} {name:<4} {old:08x}.. -> {new:08x}..  {verdict}", frame[1]);
            at += bytes;
        }
        passed
    }
}

/// Returns the first 4 bytes of a field as a number.
fn start_of(field: &[u8]) -> u32 {
    field.iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// Runs GKX between both ends of the guard.
fn exchange_keys(driver: &mut Driver, rng: &mut SimRng) {
    let group = Ristretto::new();
    let [alice, bob] =
        [(); 2].map(|()| StaticKey::from_scalar::<PortableBackend>(Secret::random(rng.rng())));
    let peer = bob.public_key();
    let (initiator, g1) =
        GkxInitiator::begin::<PortableBackend>(&group, &alice, peer, &mut Uniform, rng.rng())
            .expect("G1");
    let g1 = driver.pass_frame(GuardSide::Inside, &g1, &[("C1", 32), ("C2", 32)]);
    let (responder, g2) = GkxResponder::answer(&group, &g1, &mut Uniform, rng.rng()).expect("G2");
    let g2 = driver.pass_frame(GuardSide::Wire, &g2, &[("Y", 32)]);
    let (opened, g3) = initiator.open(&group, &g2).expect("G3");
    let g3 = driver.pass_frame(GuardSide::Inside, &g3, &[("r", 32), ("s", 32), ("tag", 16)]);
    let known =
        [GkxCandidate::new::<PortableBackend>(&bob, *alice.public_key()).expect("a valid key")];
    let accepted = responder.finish(&group, &g3, bob.public_key(), &known).expect("G4");
    let g4 = driver.pass_frame(GuardSide::Wire, &accepted.frame, &[("tag", 16)]);
    let keys = opened.finish(&g4).expect("keys");
    assert!(keys.initiator == accepted.keys.initiator, "both ends have equal keys");
    println!("Both ends have equal keys.");
}

/// Describes the width of a channel in bits.
fn describe_bits(bits: ChannelBits) -> String {
    match bits {
        ChannelBits::Hundredths(bits) => format!("{}.{:02}", bits / 100, bits % 100),
        ChannelBits::Free => "any".into(),
    }
}

fn main() {
    let mut rng = SimRng::new(7, 0);
    let key = PairingKey::random(rng.rng());
    let client = key.client_id();
    let table = RuleTable::new(RULES).expect("fields without a gap");
    let settings = GuardSettings {
        policy: StrictPolicy::Strict,
        table,
        encoding: X25519,
        record_lengths: &[256],
        clients: BTreeMap::from([(client, GuardClientSettings { key, inbound: GuardMode::Blind })]),
        destinations: BTreeMap::from([(
            DESTINATION,
            Destination { pins: None, counter: None, is_blocked: false },
        )]),
    };
    let coin_key = CoinKey::from_secret(Secret::random(rng.rng()));
    let (mut guard, record) = Guard::start(settings, coin_key, SlotLedger::default(), rng.rng());
    let opening = Opening::Pinned(client, DESTINATION);
    guard.handle(Input::Opened(CONNECTION, opening), NOW, rng.rng()).expect("a known client");
    let mut driver = Driver { guard, ledger: record.encode(), rng: SimRng::new(8, 0) };
    exchange_keys(&mut driver, &mut rng);

    let totals = driver.guard.ledger().totals();
    let around = Surroundings { destinations: 1, lengths: 1, tick_ms: 0, totals, free_counters: 1 };
    println!("\nAudit: bits that a tampered client can hide in a handshake");
    println!("  frame and field             accepted  refused  closed by");
    for row in audit_table(&table, None, &around) {
        let (kind, what, closed_by) = (row.kind, row.what, row.closed_by);
        let [accepted, refused] = [row.accepted, row.refused].map(describe_bits);
        println!("  {kind:02x} {what:<26} {accepted:>8} {refused:>8}  {closed_by}");
    }
    println!("Protection level of the rules: {}", protection_level(&table, None).number());
}
