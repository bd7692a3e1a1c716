//! The device: three phones and a relay driven by a list of operations, and stored records.

mod town;

use mezza_core::{Machine, Time};
use mezza_messenger::carriers::mixnet::{MixnetInput, NetworkAddress};
use mezza_messenger::policy::{Fallback, NoteLife, Policy};
use mezza_messenger::{
    CarrierId, Command, ContactId, Input, MailboxId, NoteId, RecordKind, RelayInput, RequestId,
};
use town::{Phone, Town};

use crate::model::Tell;
use crate::operations::Operations;
use crate::stage::{START, card, connection, load_any};

const PHONES: usize = 3;

/// Drives three phones, known to each other or not, through actions of users, network faults and
/// crashes.
pub fn run_operations(data: &[u8]) {
    let mut ops = Operations::new(data);
    let mut town = if ops.draw_below(2) == 0 { Town::new() } else { make_talked() };
    while let Some(kind) = ops.next_kind(16) {
        let who = ops.draw_below(PHONES);
        match kind {
            0 => {
                let card = card(&town.phones[ops.draw_below(PHONES)].device);
                let in_person = ops.draw_below(2) == 0;
                let add = Command::Add { card, petname: None, in_person };
                town.handle(who, Input::Command(add));
            }
            1..=3 => {
                let contact = some_contact(&mut ops, &town, who);
                let client = [ops.next_byte(); 16];
                let text = "x".repeat([1, 3, 200, 8_192, 8_193, 0][ops.draw_below(6)]);
                town.handle(
                    who,
                    Input::Command(Command::Send { contact, client, text, life: None }),
                );
            }
            4..=7 => town.deliver_answers(who, 1 + ops.draw_below(32)),
            8 => shuffled_answer(&mut ops, &mut town, who),
            9 => town.crash_phone(who),
            10 | 11 => {
                let minutes = ops.draw_below(256) as u64;
                let days = ops.draw_below(32) as u64;
                let far = if kind == 11 { days * Time::DAY_MS } else { 0 };
                town.now = town.now.plus_ms(minutes * Time::MINUTE_MS + far);
                town.phones[who].device.wake(town.now, &mut town.rng);
                town.perform_outputs(who);
            }
            12 | 13 => {
                let command = some_command(&mut ops, &town, who);
                town.handle(who, command);
            }
            14 => {
                let input = some_lie(&mut ops);
                town.handle(who, input);
            }
            _ => {
                town.handle(who, RelayInput::Down { connection: connection() }.into());
                town.phones[who].answers.clear();
                town.phones[who].answers.push_back(Tell::Up);
            }
        }
        check_bounds(&town.phones[who]);
    }
}

/// Checks the bounds of queues (MSG-35) that are visible from outside: contacts with requests, and
/// notes in the outbox.
fn check_bounds(phone: &Phone) {
    let requests = phone.disk.keys().filter(|(kind, _)| *kind == RecordKind::Contact).count();
    assert!(requests <= PHONES + 64, "more contacts and requests than can be");
    assert!(phone.device.outbox(START).len() <= 1_000 * PHONES);
}

fn some_contact(ops: &mut Operations<'_>, town: &Town, who: usize) -> ContactId {
    let contacts = town.phones[who].device.contacts();
    let at = ops.draw_below(contacts.len() + 1);
    contacts.get(at).map_or(ContactId(77), |contact| contact.id)
}

fn some_note(ops: &mut Operations<'_>, town: &Town, who: usize, contact: ContactId) -> NoteId {
    let notes = town.phones[who].device.thread(contact, None, 100, town.now);
    let at = ops.draw_below(notes.len() + 1);
    notes.get(at).map_or(NoteId(7_777), |note| note.id)
}

fn some_command(ops: &mut Operations<'_>, town: &Town, who: usize) -> Input {
    let contact = some_contact(ops, town, who);
    let note = some_note(ops, town, who, contact);
    let command = match ops.draw_below(16) {
        0 | 1 => Command::Accept { contact },
        2 => Command::Refuse { contact },
        3 => Command::Cancel { note },
        4 => Command::Forget { note },
        5 if ops.draw_below(2) == 0 => Command::LowerLevel { note },
        5 => Command::Seen { contact, note },
        6 => Command::Rename { contact, name: "n".repeat(ops.draw_below(70)) },
        7 => Command::Verify { contact, equal: ops.draw_below(2) == 0 },
        8 => {
            let carriers =
                ops.next_bytes(2).into_iter().filter_map(|n| CarrierId::from_number(n % 6));
            let policy = Policy {
                carriers: carriers.chain([CarrierId::RELAY]).collect(),
                level_min: 1 + ops.draw_below(5) as u8,
                fallback: if ops.draw_below(2) == 0 { Fallback::None } else { Fallback::Listed },
                timer_s: ops.draw_below(256) as u32 * 600,
                delivered: ops.draw_below(4) != 0,
                read: ops.draw_below(2) == 0,
                life: NoteLife::decode_choice(ops.draw_below(5) as u8).unwrap_or_default(),
            };
            Command::Policy { contact, policy }
        }
        9 => Command::Block { contact, blocked: ops.draw_below(2) == 0 },
        10 => Command::Delete { contact },
        11 => Command::Reset { contact },
        12 if ops.draw_below(4) == 0 => Command::Restored,
        12 => Command::Rotate,
        13 => Command::Refill,
        14 => {
            let link = NetworkAddress { pin: [7; 32], address: "entry:7000".into() };
            return MixnetInput::Join(link).into();
        }
        _ => Command::Publish { name: "new name".into(), relays: Vec::new() },
    };
    command.into()
}

/// Delivers one response out of order, twice, damaged, or never.
fn shuffled_answer(ops: &mut Operations<'_>, town: &mut Town, who: usize) {
    let waiting = town.phones[who].answers.len();
    let Some(mut answer) = town.phones[who].answers.remove(ops.draw_below(waiting)) else { return };
    match ops.draw_below(4) {
        0 => {}
        1 => {
            town.phones[who].answers.push_back(answer.clone());
            town.handle_tell(who, answer);
        }
        2 => {
            if let Tell::Mail(_, _, bytes) | Tell::Bundle(_, bytes, _) = &mut answer
                && !bytes.is_empty()
            {
                let place = (ops.draw_below(256) * 256 + ops.draw_below(256)) % bytes.len();
                bytes[place] ^= 1 << ops.draw_below(8);
            }
            town.handle_tell(who, answer);
        }
        _ => town.handle_tell(who, answer),
    }
}

/// Returns an input that no honest driver would give.
fn some_lie(ops: &mut Operations<'_>) -> Input {
    let ticket = RequestId(ops.draw_below(256) as u64);
    let length = ops.draw_below(256);
    let input = match ops.draw_below(8) {
        0 => RelayInput::Done { ticket },
        1 => RelayInput::Refused {
            ticket,
            code: ops.next_byte(),
            retry_s: u16::from(ops.next_byte()),
        },
        2 => RelayInput::Bundle { ticket, bytes: ops.next_bytes(length), one_time: None },
        3 => {
            let mailbox = MailboxId(ops.draw_below(8) as u32);
            let mail = ops.draw_below(256) as u64;
            RelayInput::Mail { mailbox, mail, envelope: ops.next_bytes(length) }
        }
        4 => return Input::Stored(CarrierId::MIXNET, ops.draw_below(256) as u64),
        5 => return MixnetInput::Up { trusted: ops.draw_below(2) == 0 }.into(),
        6 => return MixnetInput::Down.into(),
        _ => RelayInput::Stock { connection: connection(), left: u16::from(ops.next_byte()) },
    };
    input.into()
}

/// Makes a town after a first contact, a response and some notes.
fn make_talked() -> Town {
    let mut town = Town::new();
    let everyone =
        |town: &mut Town| (0..4).for_each(|_| (0..2).for_each(|who| town.deliver_answers(who, 64)));
    let card = card(&town.phones[1].device);
    town.handle(0, Input::Command(Command::Add { card, petname: None, in_person: true }));
    for n in 0..3 {
        for who in 0..2 {
            for contact in town.phones[who].device.contacts() {
                let contact = contact.id;
                town.handle(who, Input::Command(Command::Accept { contact }));
                let text = format!("note {n}");
                let send =
                    Command::Send { contact, client: [n + 10 * who as u8; 16], text, life: None };
                town.handle(who, Input::Command(send));
            }
            everyone(&mut town);
        }
    }
    town
}

/// Loads a valid disk with one row replaced: `kind u8 | key length u8 | key | value`.
pub fn check_records(data: &[u8]) {
    let [kind, key_len, rest @ ..] = data else { return };
    let Some((key, value)) = rest.split_at_checked(usize::from(*key_len)) else { return };
    let mut town = make_talked();
    let kinds = town.phones[1].disk.keys().map(|(kind, _)| *kind).collect::<Vec<_>>();
    let Some(kind) = kinds.into_iter().find(|known| *known as u8 == *kind) else { return };
    town.phones[1].disk.insert((kind, key.to_vec()), value.to_vec());
    let Ok(device) = load_any(&town.phones[1].disk, town.now, &mut town.rng) else { return };
    town.start_phone(1, device);
    town.deliver_answers(1, 64);
}

/// Returns every row of a phone that has exchanged notes.
pub fn record_seeds() -> Vec<Vec<u8>> {
    let town = make_talked();
    let rows = town.phones[1].disk.iter().filter(|((_, key), _)| key.len() < 256);
    rows.map(|((kind, key), value)| [&[*kind as u8, key.len() as u8], &key[..], value].concat())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_town_has_talked() {
        let town = make_talked();
        for who in 0..2 {
            let device = &town.phones[who].device;
            let contact = device.contacts()[0].id;
            assert_eq!(device.thread(contact, None, 100, town.now).len(), 6);
            assert!(device.outbox(town.now).is_empty(), "everything was delivered");
        }
        let kinds =
            record_seeds().iter().map(|row| row[0]).collect::<std::collections::BTreeSet<_>>();
        assert!(kinds.len() >= 7, "rows of many kinds: {kinds:?}");
    }
}
