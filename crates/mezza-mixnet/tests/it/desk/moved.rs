//! An entry that moved: how a client that was away finds it (MIX-77).

use super::*;

/// The successor of a config whose entry has another address and key.
fn moved(config: &Config) -> SignedConfig {
    successor(config, |next| {
        next.coordinator.address = "elsewhere:7000".into();
        next.coordinator.key = signer(77).public_key();
    })
}

impl Desk {
    /// The searches of the next tries, all of which fail.
    fn tries_in_vain(&mut self, tries: usize) -> Vec<Option<u32>> {
        let tried = (0..tries).map(|_| {
            let search = self.next_dial();
            self.input(Input::Down).expect("it dialled");
            search
        });
        tried.collect()
    }

    /// A search is answered by somebody who has this config.
    fn is_answered(&mut self, config: &SignedConfig) {
        self.input(Input::Up { trusted: false }).expect("it dialled");
        self.welcome(config.config().hash());
        self.config(0, config).expect("signed by the guardians");
        assert!(matches!(self.news.last(), Some(Output::Close)), "configs alone are asked for");
        self.input(Input::Down).expect("it was up");
    }
}

#[test]
fn mix_77_a_client_that_was_away_finds_an_entry_that_moved() {
    let first = config(3);
    let mut desk = Desk::joined(first.clone(), NoiseFloor::None);
    let next = moved(&first);
    desk.until(OPEN.plus_ms(Time::HOUR_MS + Time::MINUTE_MS));
    desk.input(Input::Down).expect("it was up");
    let begin = desk.now;
    // The line that was silent for that hour counts as the first try.
    assert_eq!(desk.tries_in_vain(4), [None; 4], "first the entry itself");
    assert_eq!(desk.tries_in_vain(3), [Some(1), None, Some(2)], "then every second try");
    assert!(desk.now.since_ms(begin) > 60_000, "at the pace of all tries");
    assert_eq!((desk.next_dial(), desk.input(Input::Down)), (None, Ok(())));
    assert_eq!(desk.next_dial(), Some(3));
    desk.is_answered(&next);
    assert_eq!(desk.client.entry_addresses(), ["elsewhere:7000", &first.coordinator.address]);
    let found = desk.now;
    assert_eq!(desk.next_dial(), None, "the new entry itself");
    assert!(desk.now.since_ms(found) < 4_000, "as after a first try");
    desk.input(Input::Down).expect("it dialled");
    assert_eq!(desk.tries_in_vain(3), [None; 3], "the search began with the entry before");
}

#[test]
fn mix_77_a_search_takes_no_config_that_the_guardians_did_not_sign() {
    let first = config(3);
    let mut desk = Desk::joined(first.clone(), NoiseFloor::None);
    desk.input(Input::Down).expect("it was up");
    desk.tries_in_vain(5);
    assert!(desk.next_dial().is_some());
    desk.input(Input::Up { trusted: false }).expect("it dialled");
    let mut forged = SignedConfig::new(moved(&first).config().clone());
    forged.add_signature(SignatureSet::Predecessor, 0, &signer(78));
    desk.welcome(forged.config().hash());
    assert!(matches!(desk.config(0, &forged), Err(ClientError::Config(_))));
    assert_eq!(desk.client.entry_addresses(), [&first.coordinator.address]);
}

#[test]
fn mix_77_lines_on_which_nothing_comes_make_a_client_search_too() {
    let first = config(3);
    let mut desk = Desk::joined(first.clone(), NoiseFloor::None);
    let mut searched = false;
    for _ in 0..8 {
        // The old entry still answers, and announces no round.
        desk.until(desk.now.plus_ms(61_000));
        assert!(desk.news.iter().any(|news| matches!(news, Output::Close)), "it is given up");
        desk.input(Input::Down).expect("it was up");
        if desk.next_dial().is_some() {
            searched = true;
            break;
        }
        desk.input(Input::Up { trusted: true }).expect("it dialled");
        desk.welcome(first.hash());
    }
    assert!(searched);
    let next = moved(&first);
    desk.is_answered(&next);
    assert_eq!(desk.client.entry_addresses()[0], "elsewhere:7000");
}

/// The network was gone for a while, and a search is the first try that is answered.
#[test]
fn mix_77_a_search_that_is_answered_leads_to_the_entry_at_once() {
    let first = config(3);
    let mut desk = Desk::joined(first.clone(), NoiseFloor::None);
    desk.input(Input::Down).expect("it was up");
    desk.tries_in_vain(11);
    assert!(desk.next_dial().is_some());
    desk.input(Input::Up { trusted: false }).expect("it dialled");
    desk.welcome(first.hash());
    assert!(matches!(desk.news.last(), Some(Output::Close)), "nothing new");
    desk.input(Input::Down).expect("it was up");
    let answered = desk.now;
    assert_eq!(desk.next_dial(), None, "the entry itself");
    assert!(desk.now.since_ms(answered) < 4_000, "as after a first try");
    // If that one fails, the pace is as before.
    desk.input(Input::Down).expect("it dialled");
    let failed = desk.now;
    desk.next_dial();
    assert!(desk.now.since_ms(failed) > 40_000);
}
