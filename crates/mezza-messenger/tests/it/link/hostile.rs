//! A peer that has all keys of a pairing, and anybody else on the cable: whatever they send, what is
//! stored loads again.

use mezza_core::{EphemeralKey, Machine, PortableBackend, Secret, Time, labelled_hash};
use mezza_messenger::carriers::link::{LinkConnection, LinkReport};
use mezza_messenger::evidence::NoteState;
use mezza_messenger::{RecordKind, view::NoteContent};
use mezza_seka::stream::{RecordType, Records};
use mezza_seka::suite::LinkSuite;
use mezza_seka::suite::default::DefaultSuite;
use mezza_seka::{
    LinkRole, Peer, PeerAddress, PeerEvent, PeerInput, PeerOutput, PeerRecord, PeerSettings,
    StoreKey,
};
use rand_chacha::rand_core::Rng;

use super::cable::Cable;
use crate::stage::card;

type Suite = DefaultSuite<PortableBackend>;

/// The victim: it waits for the other side to dial.
const BEN: usize = 1;

/// A party that has Ann's row and another program.
struct Thief {
    machine: Box<Peer<Suite>>,
    line: LinkConnection,
    records: Option<Records<<Suite as LinkSuite>::Frames>>,
    /// Frames for the victim.
    frames: Vec<Vec<u8>>,
}

impl Thief {
    /// Reads Ann's row.
    fn steal(cable: &Cable) -> Self {
        let row = cable.sides[0].disk.iter().find(|((kind, _), _)| *kind == RecordKind::LinkPeer);
        let (_, row) = row.expect("paired");
        let key = || StoreKey::new(Secret::copy_from(row[2..34].try_into().expect("32")));
        let (seq, record) = PeerRecord::open(&key(), &row[34..290]).expect("the record opens");
        assert_eq!(record.role, LinkRole::Initiator);
        let now = Time::from_ms(cable.boot_ms);
        let machine = Peer::restore(seq, record, key(), PeerSettings::default(), now);
        let machine = Box::new(machine.expect("of this suite"));
        Self { machine, line: LinkConnection(0), records: None, frames: Vec::new() }
    }

    /// Opens a connection, and exchanges keys with the victim under the state of now.
    fn reconnect(&mut self, cable: &mut Cable) {
        self.line = cable.next_connection(BEN);
        let connection = self.line;
        cable.link(BEN, LinkReport::Opened { connection, dialled: None });
        self.records = None;
        self.handle(PeerInput::Rekey, cable);
        // KE1 and KE3.
        self.flush(cable);
        self.flush(cable);
        assert!(self.records.is_some(), "the session began");
    }

    /// Passes an input to the machine, and collects its frames.
    fn handle(&mut self, input: PeerInput, cable: &mut Cable) {
        let now = Time::from_ms(cable.boot_ms);
        let _ = self.machine.handle(input, now, &mut cable.rng);
        while let Some(output) = self.machine.poll() {
            match output {
                PeerOutput::Want => {
                    let key = EphemeralKey::random::<PortableBackend>(&mut cable.rng);
                    let _ = self.machine.handle(PeerInput::Give(key), now, &mut cable.rng);
                }
                PeerOutput::Store { seq, .. } => {
                    let _ = self.machine.handle(PeerInput::Stored(seq), now, &mut cable.rng);
                }
                PeerOutput::Send { frame, .. } => self.frames.push(frame),
                PeerOutput::Install(session) => self.records = Some(Records::new(*session)),
                PeerOutput::Tell(PeerEvent::Exhausted) => panic!("numbers are left"),
                _ => {}
            }
        }
    }

    /// Sends what waits, and handles what the victim answers.
    fn flush(&mut self, cable: &mut Cable) {
        for bytes in std::mem::take(&mut self.frames) {
            let before = cable.sent.len();
            let connection = self.line;
            let _ = cable.try_link(BEN, LinkReport::Frame { connection, bytes });
            let answers: Vec<Vec<u8>> =
                cable.sent[before..].iter().map(|(_, frame)| frame.clone()).collect();
            for frame in answers {
                if frame[1] == 0x16 {
                    self.handle(PeerInput::Datagram { frame, from: PeerAddress::default() }, cable);
                } else if let Some(records) = &mut self.records
                    && frame[1] == 0x20
                {
                    records.open(&frame).expect("of the victim");
                }
            }
        }
    }

    /// Exchanges keys with the victim.
    fn exchange(cable: &mut Cable) -> Self {
        let mut thief = Self::steal(cable);
        thief.reconnect(cable);
        thief
    }

    fn record(&mut self, number: u8, text: &[u8], cable: &mut Cable) {
        let kind = match number {
            0 => RecordType::Data,
            1 => RecordType::End,
            2 => RecordType::Acknowledgement,
            other => RecordType::Other(other),
        };
        let records = self.records.as_mut().expect("a session");
        let record = records.seal(kind, text).expect("short enough");
        self.frames.push(record);
        self.flush(cable);
    }

    /// The proof that Ann's program would send.
    fn proof(&self, cable: &Cable) -> [u8; 32] {
        let export =
            self.records.as_ref().expect("a session").session().export_key("mezza link id");
        let keys = [0, 1].map(|who| *card(&cable.sides[who].device).ik());
        let parts: [&[u8]; 4] = [export.expose(), &[0], keys[0].as_bytes(), keys[1].as_bytes()];
        labelled_hash("mezza/link proof", &parts)
    }
}

fn is_closed(cable: &mut Cable, line: LinkConnection) -> bool {
    // A number that is in use is refused.
    cable.try_link(BEN, LinkReport::Opened { connection: line, dialled: None }).is_ok()
}

#[test]
fn msg_142_nothing_counts_before_the_proof() {
    let wrong = [0x55; 40];
    let cases: [(u8, &[u8]); 6] =
        [(0, &wrong), (0, &[1]), (2, &wrong[..8]), (4, &wrong), (5, &wrong[..32]), (5, &[])];
    for (number, text) in cases {
        let mut cable = Cable::paired();
        cable.cut();
        cable.is_pulled = true;
        let mut thief = Thief::exchange(&mut cable);
        thief.record(number, text, &mut cable);
        assert!(!cable.is_up(BEN));
        assert!(is_closed(&mut cable, thief.line), "type {number}");
        assert_eq!(cable.rows(BEN, RecordKind::LinkPeer), 1, "a proven pairing stays");
        cable.restart(BEN);
    }
}

#[test]
fn msg_145_whatever_a_peer_with_keys_sends_is_stored_in_a_form_that_loads() {
    let mut cable = Cable::paired();
    cable.say(0, "a real note");
    cable.say(BEN, "and its answer");
    cable.cut();
    cable.is_pulled = true;
    let mut thief = Thief::steal(&cable);
    for round in 0..30 {
        thief.reconnect(&mut cable);
        let proof = thief.proof(&cable);
        thief.record(5, &proof, &mut cable);
        assert!(cable.is_up(BEN), "round {round}: all keys are there");
        for _ in 0..20 {
            let mut draw = [0; 8];
            cable.rng.fill_bytes(&mut draw);
            let [kind, size, size_low, first, ..] = draw;
            let bytes = usize::from(u16::from_be_bytes([size, size_low])) % 16_000;
            let mut text = vec![0; bytes];
            cable.rng.fill_bytes(&mut text);
            if let Some(byte) = text.get_mut(8) {
                // Parcels with kinds of this version.
                *byte = first % 4;
            }
            thief.record([0, 0, 0, 2, 3, 4, 5, 200][usize::from(kind % 8)], &text, &mut cable);
        }
        // The device checks that rows load again, and the restart that they do.
        cable.restart(BEN);
        cable.pass(Time::MINUTE_MS);
    }
    assert_eq!(cable.texts(BEN), ["a real note", "> and its answer"]);
    let contact = cable.contact(BEN);
    let thread = cable.sides[BEN].device.thread(contact, None, 99, cable.now);
    assert!(thread.iter().all(|note| matches!(note.body, NoteContent::Text(_))));
}

/// Ann's old state is a state that SEKA has replaced: her device does not get in any more, and the
/// user pairs again (a stolen row ends the pairing, and nothing else).
#[test]
fn msg_145_after_a_theft_the_two_can_pair_again() {
    let mut cable = Cable::paired();
    cable.cut();
    cable.is_pulled = true;
    let mut thief = Thief::exchange(&mut cable);
    let proof = thief.proof(&cable);
    thief.record(5, &proof, &mut cable);
    // The state that the thief replaced leaves the row within a second (SEKA-23).
    cable.pass(Time::SECOND_MS);
    cable.restart(BEN);
    cable.plug();
    cable.pass(10 * Time::MINUTE_MS);
    assert!(!cable.is_up(0) && !cable.is_up(BEN));
    cable.pair();
    let note = cable.say(0, "paired again");
    assert_eq!(cable.state(0, note), NoteState::Delivered);
}

#[test]
fn msg_145_anybody_else_gets_no_answer_and_changes_nothing() {
    let mut cable = Cable::paired();
    cable.pass(5 * Time::SECOND_MS);
    let ke1 = cable.sent.iter().find(|(who, frame)| *who == 0 && frame[1] == 0x15);
    let ke1 = ke1.expect("an exchange").1.clone();
    let disk = cable.sides[BEN].disk.clone();
    let before = cable.sent.iter().filter(|(who, _)| *who == BEN).count();
    for n in 0..300 {
        let connection = cable.next_connection(BEN);
        cable.link(BEN, LinkReport::Opened { connection, dialled: None });
        let mut bytes = ke1.clone();
        match n % 3 {
            // Another tag; a later attempt; a frame of a pairing.
            0 => bytes[87] ^= 1,
            1 => bytes[39] = 200,
            _ => {
                bytes.truncate(68);
                bytes[1] = 0x12;
            }
        }
        cable.link(BEN, LinkReport::Frame { connection, bytes });
        assert!(is_closed(&mut cable, connection));
        cable.link(BEN, LinkReport::Closed { connection });
    }
    let after = cable.sent.iter().filter(|(who, _)| *who == BEN).count();
    assert_eq!(after, before, "no answer");
    assert!(cable.sides[BEN].disk == disk, "no write");
    assert!(cable.is_up(0) && cable.is_up(BEN));
    // Silent connections leave room for the one that is known, and end after ten seconds.
    for _ in 0..200 {
        let connection = cable.next_connection(BEN);
        cable.link(BEN, LinkReport::Opened { connection, dialled: None });
    }
    let note = cable.say(0, "I am still here");
    assert_eq!(cable.state(0, note), NoteState::Delivered);
    cable.pass(5 * Time::MINUTE_MS);
    assert!(cable.is_up(0) && cable.is_up(BEN));
}
