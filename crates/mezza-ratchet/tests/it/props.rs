//! Properties over random schedules and random bytes.

use mezza_core::{Suite, SuiteId};
use mezza_ratchet::suite::{B2c20Pq, is_container};
use mezza_ratchet::wire::{self, ContainerFormat, Wire};
use mezza_ratchet::{
    Bundle, IdentityKey, OneTimePrekey, OpenError, Padding, StoredRow, SuiteList, Table,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::people::{Person, SUITES, Talk, pass, two_people, two_people_of};

/// One step of a schedule; numbers pick among what is there.
#[derive(Clone, Debug)]
enum Op {
    Send { alice: bool, padding: Padding, body: Vec<u8> },
    Deliver { to_alice: bool, pick: usize, keep: bool },
    Lose { to_alice: bool, pick: usize },
    Flip { to_alice: bool, pick: usize, at: usize, bit: u8 },
    Reboot { alice: bool },
    Begin { alice: bool },
    Wait { hours: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    let padding = prop_oneof![Just(Padding::Blocks), (300..700_usize).prop_map(Padding::To)];
    prop_oneof![
        8 => (any::<bool>(), padding, vec(any::<u8>(), 0..40))
            .prop_map(|(alice, padding, body)| Op::Send { alice, padding, body }),
        8 => (any::<bool>(), any::<usize>(), prop::bool::weighted(0.1))
            .prop_map(|(to_alice, pick, keep)| Op::Deliver { to_alice, pick, keep }),
        1 => (any::<bool>(), any::<usize>())
            .prop_map(|(to_alice, pick)| Op::Lose { to_alice, pick }),
        1 => (any::<bool>(), any::<usize>(), any::<usize>(), 0..8_u8)
            .prop_map(|(to_alice, pick, at, bit)| Op::Flip { to_alice, pick, at, bit }),
        1 => any::<bool>().prop_map(|alice| Op::Reboot { alice }),
        2 => any::<bool>().prop_map(|alice| Op::Begin { alice }),
        1 => (0..36_u64).prop_map(|hours| Op::Wait { hours }),
    ]
}

/// A message on its way, and what it says.
type Mail = (Vec<u8>, Vec<u8>);

/// Two people, and what is on its way to each: Alice first.
struct Play {
    people: [Person; 2],
    mail: [Vec<Mail>; 2],
    opened: usize,
    suite: SuiteId,
}

impl Play {
    fn new(suite: SuiteId) -> Self {
        let (mut alice, mut bob) = two_people_of(suite, 7);
        alice.begin_with(&mut bob);
        Self { people: [alice, bob], mail: [Vec::new(), Vec::new()], opened: 0, suite }
    }

    fn take(&mut self, to: usize, pick: usize, keep: bool) -> Option<Mail> {
        let mail = &mut self.mail[to];
        let at = pick.checked_rem(mail.len())?;
        Some(if keep { mail[at].clone() } else { mail.swap_remove(at) })
    }

    /// `Person` compares the encoded state before and after each error (RATCHET-20), and the rows
    /// on its disk with the state after each success.
    fn run(&mut self, op: Op) {
        match op {
            Op::Send { alice, padding, body } => {
                let from = usize::from(!alice);
                let padding = match padding {
                    Padding::To(total) if self.suite == B2c20Pq::ID => Padding::To(total + 1_576),
                    _ if !is_container(self.suite) => Padding::Blocks,
                    _ => padding,
                };
                if self.people[from].talk.has_session() {
                    let message = self.people[from].seal(&body, &[], padding).expect("a message");
                    if let Padding::To(total) = padding {
                        assert_eq!(message.len(), total);
                    }
                    self.mail[1 - from].push((message, body));
                }
            }
            Op::Deliver { to_alice, pick, keep } => {
                let to = usize::from(!to_alice);
                let Some((message, body)) = self.take(to, pick, keep) else { return };
                match self.people[to].receive(&message) {
                    Ok(opened) => {
                        assert_eq!(opened, body);
                        self.opened += 1;
                    }
                    Err(OpenError::Duplicate | OpenError::Forged | OpenError::UnknownPrekey(_)) => {
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
            Op::Lose { to_alice, pick } => {
                self.take(usize::from(!to_alice), pick, false);
            }
            Op::Flip { to_alice, pick, at, bit } => {
                let to = usize::from(!to_alice);
                let Some((mut message, body)) = self.take(to, pick, true) else { return };
                let at = at % message.len();
                message[at] ^= 1 << bit;
                let opened = self.people[to].receive(&message);
                // Signal's first messages carry a registration that nothing authenticates.
                let known = !is_container(self.suite) && opened == Ok(body);
                assert!(opened.is_err() || known, "byte {at}");
            }
            Op::Reboot { alice } => self.people[usize::from(!alice)].reboot(),
            Op::Begin { alice } => {
                let (one, two) = self.people.split_at_mut(1);
                if alice {
                    one[0].begin_with(&mut two[0]);
                } else {
                    two[0].begin_with(&mut one[0]);
                }
            }
            Op::Wait { hours } => {
                let (one, two) = self.people.split_at_mut(1);
                pass(&mut one[0], &mut two[0], hours * 3_600_000);
                one[0].wake();
                two[0].wake();
            }
        }
    }

    /// Whatever happened: one exchange without crossing or loss, and both agree.
    fn settle(&mut self) {
        for person in &mut self.people {
            let skipped = person.disk.count(Table::Skipped);
            assert!(skipped <= 2_000 * person.disk.count(Table::Session));
        }
        for from in [0, 1, 0, 1] {
            let message = self.people[from].send(b"settled");
            let opened = self.people[1 - from].receive(&message);
            assert_eq!(opened, Ok(b"settled".to_vec()));
        }
        assert_eq!(self.people[0].talk.active_id(), self.people[1].talk.active_id());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn slow_two_parties_agree_under_any_schedule(
        suite in prop::sample::select(&SUITES[..]),
        ops in vec(op(), 1..150),
    ) {
        let mut play = Play::new(suite);
        // Bob hears of Alice once, so that both can send.
        let hello = play.people[0].send(b"hello");
        prop_assert_eq!(play.people[1].receive(&hello), Ok(b"hello".to_vec()));
        for op in ops {
            play.run(op);
        }
        play.settle();
    }

    #[test]
    fn messages_are_read_as_they_are_written(
        bytes in vec(any::<u8>(), 0..400),
        first in any::<bool>(),
    ) {
        // Mostly sane fronts, so that decoding gets somewhere.
        let mut message = vec![0xf1, if first { 2 } else { 1 }, 1, 1];
        message.extend(&bytes);
        if first && message.len() > 79 {
            message[76..79].copy_from_slice(&[1, 1, 1]);
        }
        if let Ok(envelope) = ContainerFormat::decode(&message) {
            let front = envelope.first.as_ref().map(ContainerFormat::encode_prefix);
            let front = front.as_deref().unwrap_or(&message[..4]);
            let again = [front, &envelope.inner.head[4..], &envelope.inner.sealed].concat();
            prop_assert_eq!(&again, &message);
            let identity = envelope.first.map(|first| first.identity);
            let identity = identity.and_then(|key| IdentityKey::decode(key.as_bytes()).ok());
            prop_assert_eq!(wire::first_identity(&message), identity);
        }
        let _ = (ContainerFormat::decode(&bytes), wire::peek_suite(&bytes), wire::first_identity(&bytes));
    }

    #[test]
    fn lists_and_keys_are_read_as_they_are_written(
        ids in vec(0x0100..0x0200_u16, 0..6),
        bytes in vec(any::<u8>(), 0..120),
    ) {
        let suites: Vec<SuiteId> = ids.into_iter().map(SuiteId).collect();
        if let Ok(list) = SuiteList::new(&suites) {
            prop_assert_eq!(SuiteList::decode(&list.encode()), Ok(list));
        }
        if let Ok(list) = SuiteList::decode(&bytes) {
            prop_assert_eq!(list.encode(), bytes.clone());
        }
        if let Ok(key) = OneTimePrekey::decode(&bytes) {
            prop_assert_eq!(key.encode().to_vec(), bytes.clone());
        }
        let _ = Bundle::decode(&bytes);
        let _ = Bundle::decode(&[&[1, 1, 1, 1, 1][..], &bytes].concat());
    }

    #[test]
    fn stored_sessions_are_read_as_they_are_written(at in 0..385_usize, bit in 0..8_u8) {
        let (mut alice, mut bob) = two_people(9);
        alice.begin_with(&mut bob);
        alice.send(b"x");
        let ((_, key), value) = alice.disk.0.iter().next().expect("a session");
        let mut changed = value.clone();
        prop_assert_eq!(changed.len(), 306 + 79);
        changed[at] ^= 1 << bit;
        let row = StoredRow { table: Table::Session, key, value: &changed };
        // Whatever is accepted is written back byte for byte, but for the clamping of a scalar.
        if let Ok(talk) = Talk::load(*alice.talk.local(), *alice.talk.remote(), [row]) {
            let stored = crate::people::Disk::of(talk.all_rows());
            let back = stored.0.values().next().expect("a session");
            prop_assert!(*back == changed || (at == 148 && bit < 3) || (at == 179 && bit > 5));
        }
    }
}
