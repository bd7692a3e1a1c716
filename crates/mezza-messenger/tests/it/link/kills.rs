//! A device is killed instead of any of its outputs, and the other one goes on.

use mezza_core::Time;
use mezza_messenger::Command;
use mezza_messenger::carriers::link::PairingStep;
use mezza_messenger::evidence::NoteState;

use super::cable::{Cable, Kill};

/// Two paired people talk over two renewals. Returns the outputs of each device.
fn converse(kill: Option<Kill>) -> [usize; 2] {
    let mut cable = Cable::paired();
    let begun = cable.outputs;
    cable.kill = kill.map(|kill| Kill { after: begun[kill.who] + kill.after, ..kill });
    let said = [(0, 201, "one"), (1, 202, "two"), (0, 203, "three"), (1, 204, "four")];
    for (who, client, text) in said {
        let client = [client; 16];
        for _ in 0..20 {
            cable.revive();
            if cable.sides[who].device.find_sent(&client).is_none() {
                let contact = cable.contact(who);
                cable
                    .command(who, Command::Send { contact, client, text: text.into(), life: None });
            }
            cable.pass(45 * Time::SECOND_MS);
            let note = cable.sides[who].device.find_sent(&client);
            let is_done = |note| cable.state(who, note) == NoteState::Delivered;
            if cable.killed.is_none() && note.is_some_and(is_done) {
                break;
            }
        }
    }
    for (who, client, text) in said {
        let note = cable.sides[who].device.find_sent(&[client; 16]).expect("accepted");
        assert_eq!(cable.state(who, note), NoteState::Delivered, "{text}");
    }
    let outputs = [0, 1].map(|who| cable.outputs[who] - begun[who]);
    (0..2).for_each(|who| cable.restart(who));
    assert_eq!(cable.texts(0), ["> one", "two", "> three", "four"]);
    assert_eq!(cable.texts(1), ["one", "> two", "three", "> four"]);
    outputs
}

#[test]
fn msg_144_slow_a_device_that_is_killed_at_any_output_loses_nothing_over_the_link() {
    let outputs = converse(None);
    for (who, count) in outputs.into_iter().enumerate() {
        for after in 0..count {
            converse(Some(Kill { who, after }));
        }
    }
}

/// Both pair while one is killed. Returns the outputs of each device during the pairing.
fn pair(kill: Option<Kill>) -> [usize; 2] {
    let mut cable = Cable::new();
    let begun = cable.outputs;
    cable.kill = kill.map(|kill| Kill { after: begun[kill.who] + kill.after, ..kill });
    for _ in 0..3 {
        cable.revive();
        let has_digits = |cable: &Cable, who: usize| {
            matches!(cable.sides[who].steps.last(), Some(PairingStep::Digits(_)))
        };
        cable.request_pairing();
        for who in 0..2 {
            if cable.killed != Some(who) && has_digits(&cable, who) {
                // A pairing that ended meanwhile refuses the decision.
                let equal = true;
                let _ = cable
                    .try_link(who, mezza_messenger::carriers::link::LinkReport::Confirm { equal });
                cable.settle();
            }
        }
        cable.pass(4 * Time::MINUTE_MS);
        if cable.killed.is_none() && cable.is_up(0) && cable.is_up(1) {
            break;
        }
        cable.revive();
        cable.pass(4 * Time::MINUTE_MS);
    }
    assert!(cable.kill.is_none(), "the device was killed");
    let outputs = [0, 1].map(|who| cable.outputs[who] - begun[who]);
    assert!(cable.is_up(0) && cable.is_up(1), "paired at last: {:?}", cable.steps());
    let note = cable.say(1, "we are paired");
    assert_eq!(cable.state(1, note), NoteState::Delivered);
    (0..2).for_each(|who| cable.restart(who));
    outputs
}

#[test]
fn msg_141_slow_a_device_that_is_killed_while_it_pairs_can_pair_again() {
    let outputs = pair(None);
    for (who, count) in outputs.into_iter().enumerate() {
        for after in 0..count {
            pair(Some(Kill { who, after }));
        }
    }
}
