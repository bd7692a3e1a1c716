//! Decoders of a guard, and the machines of guard and client, driven by a list of operations.

use std::collections::BTreeMap;

use mezza_core::{Machine, Secret, Time};
use mezza_guard::client::{self, GuardClient};
use mezza_guard::coin::{CoinEncoding, CoinKey, CoinPurpose, SlotName};
use mezza_guard::coins::Uniform;
use mezza_guard::gkx::GkxGuard;
use mezza_guard::guard::{
    Destination, Guard, GuardClientSettings, GuardConnection, GuardSettings, GuardSide, Input,
    Opening, Output, StrictPolicy,
};
use mezza_guard::keys::PairingKey;
use mezza_guard::ledger::{LedgerRecord, SlotLedger};
use mezza_guard::rule::{Check, Field, FrameRule, RuleTable};
use mezza_guard::wire::control::{Control, GuardMode};
use mezza_guard::{Message, Ristretto};
use mezza_sim::{Operations, SimRng, handle_checked};

const FIELDS: &[Field] = &[
    Field::new(0, 2, Check::Constant(&[1, 0x15])),
    Field::new(2, 4, Check::Counter),
    Field::new(6, 32, Check::Element(CoinEncoding::X25519, CoinPurpose::LinkDialling)),
    Field::new(38, 2, Check::Mac),
];

fn make_pairing() -> PairingKey {
    PairingKey::from_secret(Secret::init_with(|key| key.fill(1)))
}

fn make_settings(mode: GuardMode) -> GuardSettings {
    let rule = |kind| FrameRule { kind, bytes: 40, fields: FIELDS };
    let key = make_pairing();
    let clients = BTreeMap::from([(key.client_id(), GuardClientSettings { key, inbound: mode })]);
    GuardSettings {
        policy: if mode == GuardMode::Blind { StrictPolicy::Report } else { StrictPolicy::Strict },
        table: RuleTable::new([0x15, 0x16, 0x17].map(rule)).expect("fields that tile"),
        encoding: CoinEncoding::X25519,
        record_lengths: &[4],
        clients,
        destinations: BTreeMap::from([(
            1,
            Destination { pins: None, counter: None, is_blocked: false },
        )]),
    }
}

/// Decodes messages, control frames, frames of GKX, ledgers and stored coins.
pub fn check_decoders(data: &[u8]) {
    let group = Ristretto::new();
    if let Ok(message) = Message::decode(&group, data) {
        assert_eq!(message.encode(&group), data);
    }
    if let Ok(control) = Control::read_clear(data) {
        assert_eq!(control.encode_clear(), data);
    }
    let mut dice = SimRng::new(1, 0);
    for mut guard in [GkxGuard::for_dialling(), GkxGuard::for_answering()] {
        let _ = guard.change_outgoing(&group, data, &mut Uniform, dice.rng());
        let _ = guard.change_incoming(&group, data, &mut Uniform, dice.rng());
    }
    if let Ok((ledger, whole)) = SlotLedger::load(data) {
        assert!(whole <= data.len());
        let short: Vec<u8> =
            ledger.compact_records().iter().flat_map(LedgerRecord::encode).collect();
        let (again, all) = SlotLedger::load(&short).expect("a compact ledger loads");
        assert_eq!((all, again.compact_records()), (short.len(), ledger.compact_records()));
    }
    let _ = GuardClient::new(make_pairing(), CoinEncoding::X25519).load_coin(data);
}

/// Returns one input of each kind.
pub fn decoder_seeds() -> Vec<Vec<u8>> {
    let group = Ristretto::new();
    let element = |kind: u8, count: usize| {
        let one = Message::<Ristretto>::key(mezza_guard::Group::h(&group)).encode(&group);
        [&[kind][..], &one[1..].repeat(count)].concat()
    };
    let slot = mezza_guard::coin::SlotIndex {
        name: SlotName {
            client: make_pairing().client_id(),
            purpose: CoinPurpose::LinkDialling,
            dest: 1,
        },
        index: 3,
    };
    let ledger = [
        LedgerRecord::Point(slot, [2; 32], mezza_guard::coin::CoinEra([1; 32])),
        LedgerRecord::Advanced(slot, Some(7)),
        LedgerRecord::Refused(make_pairing().client_id(), 1, Time::from_ms(5)),
        LedgerRecord::Ever(make_pairing().client_id(), 3),
    ];
    let hail = Control::Hail { client: make_pairing().client_id(), nonce: [4; 32] }.encode_clear();
    let ledger = ledger.iter().flat_map(LedgerRecord::encode).collect();
    let frame = |kind: u8, body: &[u8]| [&[1, kind], body].concat();
    let both = element(0, 2);
    vec![
        element(1, 1),
        element(2, 2),
        element(6, 2),
        hail,
        ledger,
        frame(1, &both[1..]),
        frame(2, &element(0, 1)[1..]),
    ]
}

/// Drives a guard with its client: frames arrive whole, damaged, twice or on the wrong side.
pub fn run_machine(data: &[u8]) {
    let mut operations = Operations::new(data);
    let mode = if operations.next_byte() & 1 == 0 { GuardMode::Coins } else { GuardMode::Blind };
    let mut dice = SimRng::new(operations.next_byte().into(), 0);
    let key = CoinKey::from_secret(Secret::init_with(|key| key.fill(3)));
    let (mut guard, era) =
        Guard::start(make_settings(mode), key, SlotLedger::default(), dice.rng());
    let mut client = GuardClient::new(make_pairing(), CoinEncoding::X25519);
    let mut now = Time::from_ms(1_000);
    let mut ledger = era.encode();
    let mut frames = Vec::new();
    while let Some(operation) = operations.next_kind(10) {
        let conn = GuardConnection(operations.draw_below(4) as u64);
        let side =
            if operations.next_byte() & 1 == 0 { GuardSide::Inside } else { GuardSide::Wire };
        let me = make_pairing().client_id();
        let input = match operation {
            0 => Input::Opened(conn, Opening::Inside),
            1 => Input::Opened(conn, Opening::Wire(me, operations.next_byte().into())),
            2 => Input::Opened(conn, Opening::Pinned(me, 1)),
            3 => Input::Dialled(conn),
            4 => Input::Closed(conn, side),
            5 => {
                now = now.plus_ms(u64::from(operations.next_byte()) * 100);
                guard.wake(now, dice.rng());
                client.wake(now, dice.rng());
                Input::DialFailed(conn)
            }
            6 => {
                let dial = client::Input::Dial(conn, mode, operations.draw_below(3) as u16);
                let _ = handle_checked(&mut client, dial, now, dice.rng());
                Input::Dialled(conn)
            }
            7 => Input::ResetSlot(SlotName {
                client: me,
                purpose: CoinPurpose::LinkDialling,
                dest: 1,
            }),
            8 => {
                let at = operations.draw_below(frames.len());
                let mut frame: Vec<u8> = frames.get(at).cloned().unwrap_or_default();
                let place = operations.draw_below(frame.len());
                if let (true, Some(byte)) = (operations.next_byte() & 1 == 0, frame.get_mut(place))
                {
                    *byte ^= 1;
                }
                Input::Frame(conn, side, frame)
            }
            _ => {
                let frame = [&[1, 0x15][..], &operations.next_bytes(38)].concat();
                frames.push(frame.clone());
                Input::Frame(conn, side, frame)
            }
        };
        let _ = handle_checked(&mut guard, input, now, dice.rng());
        drain_both(&mut guard, &mut client, now, &mut dice, &mut ledger, &mut frames);
    }
    let (_, whole) = SlotLedger::load(&ledger).expect("what was appended loads again");
    assert_eq!(whole, ledger.len());
}

fn drain_both(
    guard: &mut Guard,
    client: &mut GuardClient,
    now: Time,
    dice: &mut SimRng,
    ledger: &mut Vec<u8>,
    frames: &mut Vec<Vec<u8>>,
) {
    for _ in 0..64 {
        while let Some(output) = guard.poll() {
            match output {
                Output::Persist(_, record) => ledger.extend(record.encode()),
                Output::Send(conn, GuardSide::Inside, frame) => {
                    frames.push(frame.clone());
                    let input = client::Input::Frame(conn, frame);
                    let _ = handle_checked(client, input, now, dice.rng());
                }
                Output::DialClient(conn, _) => {
                    let _ = handle_checked(client, client::Input::Accepted(conn), now, dice.rng());
                }
                _ => {}
            }
        }
        let Some(output) = client.poll() else { return };
        if let client::Output::Send(conn, frame) = output {
            frames.push(frame.clone());
            let input = Input::Frame(conn, GuardSide::Inside, frame);
            let _ = handle_checked(guard, input, now, dice.rng());
        }
    }
}
