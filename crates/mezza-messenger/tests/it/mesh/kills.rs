//! A device is killed instead of any of its outputs: nothing that was accepted is lost or shown twice.

use mezza_core::Time;
use mezza_messenger::evidence::NoteState;
use mezza_messenger::view::ContactState;
use mezza_messenger::{Command, Input, MeshInput};

use super::meadow::{Kill, Meadow};
use crate::stage::card;

/// Attempts of the user to get one thing done.
const TRIES: usize = 20;

/// The user of a device does one thing, and does it again if the program was killed before it was done.
#[track_caller]
fn insist(meadow: &mut Meadow, mut is_done: impl FnMut(&mut Meadow) -> bool) {
    for _ in 0..TRIES {
        if is_done(meadow) && !meadow.revive() {
            return;
        }
        meadow.revive();
        meadow.pass(Time::MINUTE_MS);
    }
    panic!("it never came to that");
}

/// Writes a note under a number of its client, which makes a repetition harmless.
fn say(meadow: &mut Meadow, who: usize, client: u8, text: &str) {
    insist(meadow, |meadow| {
        let client = [client; 16];
        if meadow.sides[who].device.find_sent(&client).is_none() {
            let contact = meadow.contact(who);
            meadow.command(who, Command::Send { contact, client, text: text.into(), life: None });
        }
        meadow.killed.is_none()
    });
}

/// Two people begin a conversation by a card alone, and talk. Returns the outputs of each device.
fn converse(kill: Option<Kill>) -> [usize; 2] {
    if let Some(Kill { who, after }) = kill {
        println!("device {who} is killed after {after} outputs");
    }
    let mut meadow = Meadow::new();
    meadow.kill = kill;
    for who in 0..2 {
        insist(&mut meadow, |meadow| {
            meadow.mesh(who, MeshInput::MakeTree { confirmed: false });
            meadow.killed.is_none()
        });
    }
    insist(&mut meadow, |meadow| {
        if meadow.sides[0].device.contacts().is_empty() {
            let card = card(&meadow.sides[1].device);
            meadow.command(0, Command::Add { card, petname: None, in_person: false });
        }
        meadow.killed.is_none()
    });
    say(&mut meadow, 0, 1, "one");
    insist(&mut meadow, |meadow| {
        let Some(request) = meadow.sides[1].device.contacts().first().cloned() else {
            return false;
        };
        if request.standing == ContactState::Request {
            let contact = request.id;
            let _ = meadow.try_input(1, Input::Command(Command::Accept { contact }));
            meadow.settle();
        }
        meadow.killed.is_none()
    });
    say(&mut meadow, 1, 2, "two");
    say(&mut meadow, 0, 3, "three");
    insist(&mut meadow, |meadow| {
        let state = |who: usize, client: u8| {
            let side = &meadow.sides[who].device;
            side.find_sent(&[client; 16]).map(|note| meadow.state(who, note))
        };
        [(0, 1), (1, 2), (0, 3)]
            .iter()
            .all(|(who, client)| state(*who, *client) == Some(NoteState::Delivered))
    });
    assert!(meadow.kill.is_none(), "the device was killed");
    let outputs = meadow.outputs;
    // Everything is on the disks, once.
    for who in 0..2 {
        meadow.restart(who);
    }
    assert_eq!(meadow.texts(0), ["> one", "two", "> three"]);
    assert_eq!(meadow.texts(1), ["one", "> two", "three"]);
    outputs
}

#[test]
fn msg_138_slow_a_device_that_is_killed_at_any_output_loses_nothing_over_the_mesh() {
    let outputs = converse(None);
    for (who, count) in outputs.into_iter().enumerate() {
        for after in 0..count {
            converse(Some(Kill { who, after }));
        }
    }
}
