//! A guard between Ann and Ben: Ann's device dials the guard, the guard dials Ben's.

use std::collections::BTreeMap;

use mezza_core::{Machine, Secret, Time};
use mezza_guard::coin::{CoinEncoding, CoinKey, CoinPurpose, SlotName};
use mezza_guard::guard::{
    Destination, Guard, GuardClientSettings, GuardConnection, GuardSettings, GuardSide, Input,
    Opening, Output, StrictPolicy,
};
use mezza_guard::keys::PairingKey;
use mezza_guard::ledger::SlotLedger;
use mezza_guard::rule::{Check, Field, FieldPin, FrameRule, RuleTable};
use mezza_guard::wire::control::{GuardMode, RefusalCode};
use mezza_messenger::carriers::link::{GuardTrouble, LinkConnection, LinkReport};
use mezza_messenger::evidence::{NoteState, WaitReason};
use mezza_messenger::view::Part;
use mezza_messenger::{ContactId, PersonError, RecordKind};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use super::cable::{Cable, Cargo, Kill};
use crate::stage::load_any;

/// The address of the guard.
pub const GUARD: &str = "guard.example:4797";
/// Ben's number there.
const DEST: u16 = 1;
const X: CoinEncoding = CoinEncoding::X25519;

const fn header(kind: &'static [u8]) -> [Field; 4] {
    [
        Field::new(0, 2, Check::Constant(kind)),
        Field::new(2, 3, Check::Constant(&[2, 0, 0])),
        Field::new(5, 2, Check::Pinned(FieldPin::Link)),
        Field::new(7, 1, Check::LowByte(36)),
    ]
}

const H1: [Field; 4] = header(&[1, 0x15]);
const H2: [Field; 4] = header(&[1, 0x16]);
const H3: [Field; 4] = header(&[1, 0x17]);
const KE1: &[Field] = &[
    H1[0],
    H1[1],
    H1[2],
    H1[3],
    Field::new(8, 6, Check::Pinned(FieldPin::Own)),
    Field::new(14, 6, Check::Pinned(FieldPin::Peer)),
    Field::new(20, 16, Check::Derived(b"seka1 s", &[(8, 14), (40, 72)])),
    Field::new(36, 4, Check::Counter),
    Field::new(40, 32, Check::Element(X, CoinPurpose::LinkDialling)),
    Field::new(72, 16, Check::Mac),
];
const KE2: &[Field] = &[
    H2[0],
    H2[1],
    H2[2],
    H2[3],
    Field::new(8, 6, Check::Echo(14)),
    Field::new(14, 6, Check::Echo(8)),
    Field::new(20, 16, Check::Echo(20)),
    Field::new(36, 4, Check::Echo(36)),
    Field::new(40, 32, Check::Element(X, CoinPurpose::LinkAnswering)),
    Field::new(72, 16, Check::Mac),
];
const KE3: &[Field] = &[
    H3[0],
    H3[1],
    H3[2],
    H3[3],
    Field::new(8, 6, Check::Pinned(FieldPin::Own)),
    Field::new(14, 6, Check::Pinned(FieldPin::Peer)),
    Field::new(20, 16, Check::Echo(20)),
    Field::new(36, 4, Check::Echo(36)),
    Field::new(40, 16, Check::Mac),
];

fn pairing_key(byte: u8) -> Secret<32> {
    Secret::init_with(|key| key.fill(byte))
}

fn settings() -> GuardSettings {
    let key = PairingKey::from_secret(pairing_key(7));
    let client = GuardClientSettings { key: key.duplicate(), inbound: GuardMode::Coins };
    let rules = [
        FrameRule { kind: 0x15, bytes: 88, fields: KE1 },
        FrameRule { kind: 0x16, bytes: 88, fields: KE2 },
        FrameRule { kind: 0x17, bytes: 56, fields: KE3 },
    ];
    let dest = Destination { pins: None, counter: None, is_blocked: false };
    GuardSettings {
        policy: StrictPolicy::Strict,
        table: RuleTable::new(rules).expect("fields that tile"),
        encoding: X,
        record_lengths: &[256, 512, 1_024, 2_048, 4_096, 16_384],
        clients: BTreeMap::from([(key.client_id(), client)]),
        destinations: BTreeMap::from([(DEST, dest)]),
    }
}

/// The guard with its connections.
pub struct GuardBox {
    machine: Guard,
    /// Ann's connection to the guard, and the one at Ben's, of each pair.
    pairs: BTreeMap<GuardConnection, [Option<LinkConnection>; 2]>,
    last: u64,
    pub is_down: bool,
    /// True while Ben's device accepts connections and answers nothing.
    is_mute: bool,
    rng: ChaCha20Rng,
}

impl GuardBox {
    fn new() -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(29);
        let key = CoinKey::from_secret(pairing_key(12));
        let (machine, _) = Guard::start(settings(), key, SlotLedger::default(), &mut rng);
        Self { machine, pairs: BTreeMap::new(), last: 0, is_down: false, is_mute: false, rng }
    }

    fn find(&self, who: usize, connection: LinkConnection) -> Option<GuardConnection> {
        let is_it = |(_, ends): &(&GuardConnection, &[Option<LinkConnection>; 2])| {
            ends[who] == Some(connection)
        };
        self.pairs.iter().find(is_it).map(|(conn, _)| *conn)
    }
}

fn side_of(who: usize) -> GuardSide {
    if who == 0 { GuardSide::Inside } else { GuardSide::Wire }
}

impl Cable {
    /// Ann and Ben, paired, and a guard that Ann uses for Ben.
    fn guarded() -> Self {
        let mut cable = Self::paired();
        cable.guard = Some(GuardBox::new());
        cable.join(7);
        cable.set_dest(Some(DEST));
        cable
    }

    fn join(&mut self, key: u8) {
        let key = pairing_key(key);
        self.link(0, LinkReport::JoinGuard { address: GUARD.into(), key });
    }

    fn set_dest(&mut self, dest: Option<u16>) {
        let contact = self.contact(0);
        self.link(0, LinkReport::SetGuardDest { contact, dest });
    }

    fn give(&mut self, input: Input) {
        let now = Time::from_ms(self.boot_ms);
        let Some(guard) = &mut self.guard else { return };
        let _ = guard.machine.handle(input, now, &mut guard.rng);
        while let Some(output) = guard.machine.poll() {
            match output {
                Output::Send(conn, side, bytes) => {
                    let who = usize::from(side == GuardSide::Wire);
                    if guard.is_mute && side == GuardSide::Wire {
                        continue;
                    }
                    if let Some([ann, ben]) = guard.pairs.get(&conn)
                        && let Some(to) = [ann, ben][who]
                    {
                        self.cargo.push_back((who, Cargo::Bytes(*to, bytes)));
                    }
                }
                Output::Dial(conn, _) => self.cargo.push_back((1, Cargo::Dial(conn))),
                Output::Close(conn, _) => {
                    let ends = guard.pairs.remove(&conn).unwrap_or_default();
                    for (who, end) in ends.into_iter().enumerate() {
                        if let Some(end) = end {
                            self.cargo.push_back((who, Cargo::Close(end)));
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Connects to the guard.
    pub fn connect_guarded(&mut self, who: usize, contact: ContactId) {
        assert_eq!(who, 0, "Ben has no guard");
        if self.killed.is_some() || self.guard.as_ref().is_none_or(|guard| guard.is_down) {
            let _ = self.try_link(who, LinkReport::DialFailed { contact });
            return;
        }
        let connection = self.next_connection(who);
        let Some(guard) = &mut self.guard else { return };
        guard.last += 1;
        let conn = GuardConnection(guard.last);
        guard.pairs.insert(conn, [Some(connection), None]);
        self.give(Input::Opened(conn, Opening::Inside));
        let _ = self.try_link(who, LinkReport::Opened { connection, dialled: Some(contact) });
    }

    /// The guard connects to Ben's device.
    pub fn connect_behind(&mut self, conn: GuardConnection) {
        if self.is_pulled || self.killed.is_some() {
            return self.give(Input::DialFailed(conn));
        }
        let connection = self.next_connection(1);
        let _ = self.try_link(1, LinkReport::Opened { connection, dialled: None });
        if let Some(ends) = self.guard.as_mut().and_then(|guard| guard.pairs.get_mut(&conn)) {
            ends[1] = Some(connection);
        }
        self.give(Input::Dialled(conn));
    }

    /// Passes a frame to the guard, if the connection leads there.
    pub fn send_guarded(&mut self, who: usize, connection: LinkConnection, bytes: &[u8]) -> bool {
        let conn = self.guard.as_ref().and_then(|guard| guard.find(who, connection));
        let Some(conn) = conn else { return false };
        self.give(Input::Frame(conn, side_of(who), bytes.to_vec()));
        true
    }

    pub fn close_guarded(&mut self, who: usize, connection: LinkConnection) {
        let Some(guard) = &mut self.guard else { return };
        let Some(conn) = guard.find(who, connection) else { return };
        if let Some(ends) = guard.pairs.get_mut(&conn) {
            ends[who] = None;
        }
        self.give(Input::Closed(conn, side_of(who)));
    }

    /// A device is gone: its connections at the guard end.
    pub fn lose_guarded(&mut self, who: usize) {
        let ends = self.guard.iter().flat_map(|guard| guard.pairs.values());
        for connection in ends.filter_map(|ends| ends[who]).collect::<Vec<_>>() {
            self.close_guarded(who, connection);
        }
    }

    /// All connections through the guard end.
    pub fn cut_guarded(&mut self) {
        let pairs = self.guard.as_mut().map(|guard| std::mem::take(&mut guard.pairs));
        for (conn, ends) in pairs.into_iter().flatten() {
            self.give(Input::Closed(conn, GuardSide::Inside));
            for (who, end) in ends.into_iter().enumerate() {
                if let Some(end) = end {
                    self.cargo.push_back((who, Cargo::Close(end)));
                }
            }
        }
        self.settle();
    }

    /// The guard is gone until it is back.
    fn set_guard_down(&mut self, is_down: bool) {
        if let Some(guard) = &mut self.guard {
            guard.is_down = is_down;
        }
        if is_down {
            self.cut_guarded();
        }
    }

    fn set_mute(&mut self, is_mute: bool) {
        if let Some(guard) = &mut self.guard {
            guard.is_mute = is_mute;
        }
    }

    fn ledger(&self) -> &SlotLedger {
        self.guard.as_ref().expect("there").machine.ledger()
    }

    /// Dials of Ann that did not lead to the guard.
    fn dials_around(&self, since: usize) -> usize {
        self.sides[0].dialled[since..].iter().filter(|address| *address != GUARD).count()
    }
}

#[test]
fn guard_55_a_note_goes_through_the_guard_with_a_joint_key() {
    let mut cable = Cable::guarded();
    let before = cable.sides[0].dialled.len() - 1;
    assert!(cable.is_up(0) && cable.is_up(1));
    for n in 0..20 {
        let note = cable.say(n % 2, "through the guard");
        assert_eq!(cable.state(n % 2, note), NoteState::Delivered);
        // Over renewals, each with a key and a number of its own.
        cable.pass(61 * Time::SECOND_MS);
    }
    assert_eq!(cable.dials_around(before), 0);
    let totals = cable.ledger().totals();
    assert!(totals.handshakes >= 9, "{} handshakes", totals.handshakes);
    assert_eq!(totals.refused, 0, "no number was skipped, and each MAC was answered");
    assert_eq!(cable.rows(0, RecordKind::Guard), 1, "each secret was erased after its answer");
    assert!(cable.sides[0].gifts >= 9);
    // A restart loses no number either.
    cable.restart(0);
    cable.pass(Time::MINUTE_MS);
    let note = cable.say(0, "after a restart");
    assert_eq!(cable.state(0, note), NoteState::Delivered);
    assert_eq!(cable.ledger().totals().refused, 0);
}

#[test]
fn guard_56_without_the_guard_a_note_waits_and_says_why() {
    let mut cable = Cable::guarded();
    let since = cable.sides[0].dialled.len();
    cable.set_guard_down(true);
    assert!(!cable.is_up(0));
    let note = cable.say(0, "it waits");
    cable.pass(5 * Time::SECOND_MS);
    assert_eq!(cable.state(0, note), NoteState::Queued(WaitReason::Guard));
    assert_eq!(cable.sides[0].trouble, Some(GuardTrouble::Unreachable));
    cable.pass(Time::HOUR_MS);
    assert_eq!(cable.dials_around(since), 0);
    cable.set_guard_down(false);
    cable.pass(75 * Time::SECOND_MS);
    assert_eq!(cable.state(0, note), NoteState::Delivered);
    assert_eq!(cable.sides[0].trouble, None);
    // Ben's device is gone: the guard is not the reason.
    cable.is_pulled = true;
    cable.cut();
    let note = cable.say(0, "ben sleeps");
    cable.pass(5 * Time::SECOND_MS);
    assert_eq!(cable.state(0, note), NoteState::Queued(WaitReason::NoCarrier));
    let refused = Some(GuardTrouble::Refused(RefusalCode::Unreachable));
    assert_eq!(cable.sides[0].trouble, refused);
}

#[test]
fn guard_55_a_connection_that_was_being_made_carries_nothing_around_the_guard() {
    let mut cable = Cable::paired();
    cable.guard = Some(GuardBox::new());
    cable.join(7);
    cable.set_guard_down(true);
    cable.cut();
    // Ann's device dials Ben's, and the destination is set before the connection stands.
    cable.boot_ms += 5 * Time::SECOND_MS;
    cable.try_link(0, LinkReport::Due).expect("taken");
    assert!(!cable.sides[0].dials.is_empty(), "a dial is open");
    let contact = cable.contact(0);
    let sent = cable.sent.len();
    let dest = Some(DEST);
    cable.try_link(0, LinkReport::SetGuardDest { contact, dest }).expect("taken");
    let since = cable.sides[0].dialled.len();
    cable.settle();
    cable.pass(Time::MINUTE_MS);
    assert_eq!(cable.sent.len(), sent, "a frame went around the guard");
    cable.set_guard_down(false);
    cable.pass(75 * Time::SECOND_MS);
    assert!(cable.is_up(0) && cable.dials_around(since) == 0);
}

#[test]
fn guard_56_a_refusal_of_the_guard_is_the_reason() {
    let mut cable = Cable::guarded();
    let since = cable.sides[0].dialled.len();
    cable.set_dest(Some(9));
    let note = cable.say(0, "to nobody on the list");
    assert_eq!(cable.state(0, note), NoteState::Queued(WaitReason::Guard));
    let refused = Some(GuardTrouble::Refused(RefusalCode::UnknownDestination));
    assert_eq!(cable.sides[0].trouble, refused);
    cable.set_dest(Some(DEST));
    assert_eq!(cable.state(0, note), NoteState::Delivered);
    // Another pairing code.
    cable.join(8);
    let note = cable.say(0, "under another code");
    cable.pass(12 * Time::SECOND_MS);
    assert_eq!(cable.state(0, note), NoteState::Queued(WaitReason::Guard));
    assert_eq!(cable.sides[0].trouble, Some(GuardTrouble::Closed));
    cable.join(7);
    cable.pass(75 * Time::SECOND_MS);
    assert_eq!(cable.state(0, note), NoteState::Delivered);
    assert_eq!(cable.dials_around(since), 0);
    // Without a destination the link is a direct connection again.
    cable.set_dest(None);
    assert!(cable.is_up(0) && cable.dials_around(since) == 1);
}

#[test]
fn guard_56_a_note_that_was_on_its_way_shows_the_guard_too() {
    let mut cable = Cable::guarded();
    cable.set_mute(true);
    let note = cable.say(0, "it is lost on the way");
    assert_eq!(cable.state(0, note), NoteState::Queued(WaitReason::Sending));
    cable.set_guard_down(true);
    cable.pass(5 * Time::SECOND_MS);
    assert_eq!(cable.state(0, note), NoteState::Queued(WaitReason::Guard));
    cable.set_mute(false);
    cable.set_guard_down(false);
    cable.pass(75 * Time::SECOND_MS);
    assert_eq!(cable.state(0, note), NoteState::Delivered);
}

#[test]
fn guard_61_after_leaving_the_guard_nothing_is_dialled_until_the_user_says_how() {
    let mut cable = Cable::guarded();
    let refused = cable.try_link(1, LinkReport::LeaveGuard);
    assert_eq!(refused, Err(PersonError::NoGuard.into()), "Ben has none");
    cable.set_mute(true);
    cable.cut_guarded();
    cable.pass(Time::MINUTE_MS);
    assert_eq!(cable.rows(0, RecordKind::Guard), 2, "the pairing, and the secret of a handshake");
    cable.link(0, LinkReport::LeaveGuard);
    assert_eq!(cable.rows(0, RecordKind::Guard), 0);
    cable.set_mute(false);
    let dialled = cable.sides[0].dialled.len();
    let note = cable.say(0, "it waits");
    cable.pass(Time::HOUR_MS);
    cable.restart(0);
    cable.pass(Time::HOUR_MS);
    assert_eq!(cable.state(0, note), NoteState::Queued(WaitReason::Guard));
    assert_eq!(cable.sides[0].dialled.len(), dialled, "nothing was dialled");
    cable.set_dest(None);
    cable.pass(Time::MINUTE_MS);
    assert_eq!(cable.state(0, note), NoteState::Delivered);
    assert!(cable.dials_around(dialled) >= 1, "a direct connection, as the user chose");
}

#[test]
fn msg_156_a_device_that_answers_nothing_is_not_asked_until_the_guard_blocks_it() {
    let mut cable = Cable::guarded();
    cable.say(0, "it answers");
    cable.cut();
    cable.set_mute(true);
    let note = cable.say(0, "it does not answer");
    cable.pass(24 * Time::HOUR_MS);
    assert_eq!(cable.state(0, note), NoteState::Queued(WaitReason::NoCarrier));
    assert_eq!(cable.sides[0].trouble, Some(GuardTrouble::Unanswered));
    let refused = cable.ledger().totals().refused;
    assert!((10..20).contains(&refused), "{refused} in a day");
    cable.set_mute(false);
    cable.pass(3 * Time::HOUR_MS + Time::MINUTE_MS);
    assert_eq!(cable.state(0, note), NoteState::Delivered);
    assert_eq!(cable.sides[0].trouble, None);
}

/// Ann and Ben talk through the guard while Ann's device is killed. Returns Ann's outputs.
fn converse(kill_after: Option<usize>) -> usize {
    let mut cable = Cable::guarded();
    let begun = cable.outputs[0];
    cable.kill = kill_after.map(|after| Kill { who: 0, after: begun + after });
    cable.pass(3 * Time::MINUTE_MS);
    let outputs = cable.outputs[0] - begun;
    if cable.revive() {
        cable.pass(3 * Time::MINUTE_MS);
    }
    let note = cable.say(1, "are you there?");
    cable.pass(2 * Time::MINUTE_MS);
    assert_eq!(cable.state(1, note), NoteState::Delivered, "{kill_after:?}");
    assert_eq!(cable.rows(0, RecordKind::Guard), 1, "{kill_after:?}");
    // No key was offered twice: the guard would have refused the second one as taken.
    assert_eq!(cable.sides[0].trouble, None, "{kill_after:?}");
    outputs
}

#[test]
fn guard_57_slow_a_device_that_is_killed_at_any_output_offers_its_stored_point_again() {
    for after in 0..converse(None) {
        converse(Some(after));
    }
}

/// Ann's device, killed after its point was sent: row 22 has the coin.
fn with_stored_coin() -> Cable {
    for after in 0..40 {
        let mut cable = Cable::guarded();
        cable.kill = Some(Kill { who: 0, after: cable.outputs[0] + after });
        cable.pass(125 * Time::SECOND_MS);
        let is_pointed = cable.ledger().open_slots().next().is_some();
        if cable.killed.is_some() && cable.rows(0, RecordKind::Guard) == 2 && is_pointed {
            return cable;
        }
    }
    panic!("no kill left a coin and its point");
}

#[test]
fn guard_57_a_damaged_coin_is_quarantined_and_the_guard_says_that_its_slot_is_taken() {
    let mut cable = with_stored_coin();
    let rows = cable.sides[0].disk.iter_mut();
    let coin = rows.filter(|((kind, key), _)| *kind == RecordKind::Guard && !key.is_empty());
    for (_, row) in coin {
        row[0] = 0xee;
    }
    let note = restart_aside(&mut cable, 1);
    assert_eq!(cable.state(0, note), NoteState::Queued(WaitReason::Guard));
    let taken = Some(GuardTrouble::Refused(RefusalCode::SlotTaken));
    assert_eq!(cable.sides[0].trouble, taken);
    // The owner of the guard resets the slot.
    let client = PairingKey::from_secret(pairing_key(7)).client_id();
    let slot = SlotName { client, purpose: CoinPurpose::LinkDialling, dest: DEST };
    cable.give(Input::ResetSlot(slot));
    cable.pass(75 * Time::SECOND_MS);
    assert_eq!(cable.state(0, note), NoteState::Delivered);
}

#[test]
fn guard_57_a_damaged_pairing_keeps_the_link_closed_and_the_device_open() {
    let mut cable = Cable::guarded();
    let pairing = (RecordKind::Guard, Vec::new());
    cable.sides[0].disk.get_mut(&pairing).expect("stored")[0] = 0xee;
    let since = cable.sides[0].dialled.len();
    let note = restart_aside(&mut cable, 1);
    cable.pass(Time::HOUR_MS);
    assert_eq!(cable.state(0, note), NoteState::Queued(WaitReason::Guard));
    assert_eq!(cable.sides[0].dialled.len(), since, "nothing is dialled");
    cable.join(7);
    cable.pass(75 * Time::SECOND_MS);
    assert_eq!(cable.state(0, note), NoteState::Delivered);
}

/// Starts Ann's device from a disk of which these rows do not load. Returns a note that she writes.
fn restart_aside(cable: &mut Cable, records: usize) -> mezza_messenger::NoteId {
    cable.lose_guarded(0);
    cable.settle();
    cable.killed = None;
    let device = load_any(&cable.sides[0].disk, cable.now, &mut cable.rng);
    cable.sides[0].device = device.expect("the profile is there");
    let aside = cable.sides[0].device.set_aside();
    assert!(
        matches!(&aside[..], [one] if one.part == Part::Other && one.records == records),
        "{aside:?}"
    );
    cable.sides[0].wake_at = Some(cable.boot_ms);
    cable.pass(12 * Time::SECOND_MS);
    let note = cable.say(0, "after the start");
    cable.pass(Time::SECOND_MS);
    note
}
