//! People who talk, call and invite through a whole network, while rounds fail.

use std::collections::BTreeMap;

use mezza_core::{EphemeralKey, PortableBackend, PublicKey, Secret, StaticKey, Wiping};
use mezza_lanes::portable;
use mezza_mixnet::client::{
    Access, CheckedSettings, DropResult, Submission, no_call, no_invitation, select_served,
    to_bucket, wrap_slots,
};
use mezza_mixnet::config::NetworkId;
use mezza_mixnet::contact::{self, CallKeywheel, ConversationKeywheel, Intent, Role};
use mezza_mixnet::coordinator::Input;
use mezza_mixnet::onion::open_reply;
use mezza_mixnet::stream::{CellOutcome, Receiver, Sender};
use mezza_mixnet::wire::filter::Filter;
use mezza_mixnet::wire::invitation::{BODY_BYTES, Invitation};
use mezza_mixnet::wire::{Cell, Frame, FrameBody, bucket};
use mezza_mixnet::{RoundId, Service};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use crate::city::City;
use crate::fixture::{OPEN, chain, config};

/// One side of one contact.
struct Contact {
    chain: ConversationKeywheel,
    sender: Sender,
    receiver: Receiver,
    got: Vec<Vec<u8>>,
}

impl Contact {
    fn new(root: u8, role: Role) -> Self {
        let root = Secret::init_with(|s| s.fill(root));
        Self {
            chain: ConversationKeywheel::begin(&root, role, 100),
            sender: Sender::default(),
            receiver: Receiver::default(),
            got: Vec::new(),
        }
    }

    fn settle(&mut self, seq: Option<u32>, answer: Option<DropResult>) {
        let outcome = match &answer {
            Some(DropResult::Met(_)) => CellOutcome::Met,
            Some(DropResult::Absent) => CellOutcome::Absent,
            Some(DropResult::Garbage) => CellOutcome::Garbage,
            None => CellOutcome::Missed,
        };
        self.sender.settle_piece(seq, outcome);
        let Some(DropResult::Met(Ok(cell))) = answer else { return };
        assert!(self.sender.apply_ack(cell.ack, cell.sack));
        if let Some(piece) = &cell.piece {
            let messages = self.receiver.receive_piece(cell.seq, piece).expect("an honest partner");
            self.receiver.mark_durable(cell.seq);
            for message in messages {
                self.receiver.mark_kept(message.last);
                self.got.push(message.bytes.to_vec());
            }
        }
    }
}

/// A sealed slot of a round: its contact, its piece, and the key to read the reply.
struct Pending {
    contact: Option<usize>,
    seq: Option<u32>,
    access: Access,
    sent: Submission,
}

#[derive(Default)]
struct Person {
    contacts: Vec<Contact>,
    last: Option<u64>,
}

impl Person {
    /// One round's SUBMIT; every person makes one, whether somebody is served or not.
    fn seal(&mut self, city: &City, id: RoundId, rng: &mut ChaCha20Rng) -> Pending {
        let announced = city.announced_settings(id).expect("settings");
        let chain = chain(&city.net.config);
        let checked =
            CheckedSettings::check(&announced, &chain, self.last, city.net.now, portable());
        let checked = checked.expect("good settings");
        self.last = Some(id.round);
        for contact in &mut self.contacts {
            assert_eq!(contact.chain.advance_to(id.round, 1 << 16), Ok(true));
        }
        let meetings = self.contacts.iter().map(|c| c.chain.meeting()).collect::<Vec<_>>();
        let contact = select_served(&meetings, 1).first().copied();
        let (access, seq) = match contact.map(|at| &mut self.contacts[at]) {
            None => (Access::for_idle_slot::<PortableBackend>(id.round, rng), None),
            Some(contact) => {
                let taken = contact.sender.take_piece();
                let seq = taken.as_ref().map(|(seq, _)| *seq);
                let (ack, sack) = contact.receiver.ack_fields();
                let next = contact.sender.next_piece();
                let piece = taken.map(|(_, piece)| piece);
                let cell = Cell { leaving: false, seq: seq.unwrap_or(next), ack, sack, piece };
                (Access::seal_cell::<PortableBackend>(contact.chain.take_round_keys(), &cell), seq)
            }
        };
        let pairs = vec![EphemeralKey::random::<PortableBackend>(rng)];
        let sent = wrap_slots::<PortableBackend>(
            portable(),
            &checked.layers(),
            pairs,
            access.bytes(),
            rng,
        );
        Pending { contact, seq, access, sent: sent.expect("one pair for one slot") }
    }

    fn read(&mut self, pending: Pending, reply: Option<Vec<u8>>) {
        let answer = reply.map(|reply| {
            let inner =
                open_reply(portable(), &pending.sent.reply_keys[0], reply).expect("our own reply");
            pending.access.read_reply::<PortableBackend>(&inner)
        });
        match pending.contact {
            Some(at) => self.contacts[at].settle(pending.seq, answer),
            None => assert!(answer.is_none_or(|answer| answer == DropResult::Absent)),
        }
    }
}

/// Runs one conversation round. Who is in `away` seals and does not get through.
fn round(city: &mut City, people: &mut [Person], round: u64, away: &[usize], lost: bool) {
    let id = RoundId { service: Service::Conversation, round };
    let opens = OPEN.plus_ms(5_000 * (round - 100));
    city.run_until(opens.plus_ms(500));
    let mut rng = ChaCha20Rng::seed_from_u64(round);
    let sealed = people.iter_mut().map(|person| person.seal(city, id, &mut rng));
    let sealed = sealed.collect::<Vec<_>>();
    let sizes = sealed.iter().map(|pending| pending.sent.onions.len()).collect::<Vec<_>>();
    assert!(sizes.iter().all(|size| *size == 416), "nobody stands out");
    for (client, pending) in sealed.iter().enumerate().filter(|(client, _)| !away.contains(client))
    {
        city.send_onions(client as u64, id, &pending.sent.onions);
    }
    if lost {
        city.input(Input::MixLost(1));
    }
    city.run_until(opens.plus_ms(4_000));
    for (client, (person, pending)) in people.iter_mut().zip(sealed).enumerate() {
        let reply = city.returned_replies(client as u64, id).map(|(_, reply)| reply);
        person.read(pending, reply);
    }
    city.told.clear();
}

/// A network with conversation rounds and little noise: many rounds in a short time.
fn conversations_alone() -> City {
    let mut config = config(3);
    config.services.truncate(1);
    (config.services[0].mu, config.services[0].scale) = (6, 2);
    City::with_config(config)
}

#[test]
fn people_talk_through_three_mixes_while_rounds_fail() {
    mezza_sim::for_each_seed(3, |seed| {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut city = conversations_alone();
        let mut people = (0..4).map(|_| Person::default()).collect::<Vec<_>>();
        (0..4).for_each(|client| city.send_hello(client));
        // Alice (0) talks with Bob (1) and Carol (2); Dave (3) talks with nobody.
        for (a, b, root) in [(0, 1, 1), (0, 2, 2)] {
            people[a].contacts.push(Contact::new(root, Role::Initiator));
            people[b].contacts.push(Contact::new(root, Role::Responder));
        }
        let text = |n: u8, len: usize| vec![n; len];
        let to_bob = text(1, 900);
        let to_carol = text(2, 30);
        let to_alice = text(3, 500);
        people[0].contacts[0].sender.push_message(1, &to_bob).expect("room");
        people[0].contacts[1].sender.push_message(2, &to_carol).expect("room");
        people[1].contacts[0].sender.push_message(3, &to_alice).expect("room");
        let mut number = 100;
        let done = |people: &[Person]| {
            let all = people.iter().flat_map(|person| &person.contacts);
            all.into_iter().all(|contact| contact.sender.is_idle())
        };
        while !done(&people) {
            let away = (0..4).filter(|_| rng.next_u32() % 6 == 0).collect::<Vec<_>>();
            let lost = rng.next_u32() % 8 == 0;
            round(&mut city, &mut people, number, &away, lost);
            number += if lost { 3 } else { 1 };
            assert!(number < 260, "the messages never arrive");
        }
        assert_eq!(people[1].contacts[0].got, [to_bob]);
        assert_eq!(people[2].contacts[0].got, [to_carol]);
        assert_eq!(people[0].contacts[0].got, [to_alice]);
        assert_eq!(people[0].contacts[0].sender.take_handed(), [1]);
        assert_eq!(city.refused, []);
    });
}

/// Runs one call or invitation round; the object of bucket 1 as client 0 gets it.
fn bucket_round(city: &mut City, id: RoundId, inner: &[Vec<u8>]) -> Vec<u8> {
    (0..inner.len()).for_each(|client| city.send_hello(client as u64));
    city.run_until(OPEN.plus_ms(500));
    let announced = city.announced_settings(id).expect("settings");
    let chain = chain(&city.net.config);
    let now = city.net.now;
    let checked =
        CheckedSettings::check(&announced, &chain, None, now, portable()).expect("good settings");
    let mut rng = ChaCha20Rng::seed_from_u64(9);
    for (client, plain) in inner.iter().enumerate() {
        let pairs = vec![EphemeralKey::random::<PortableBackend>(&mut rng)];
        let sent =
            wrap_slots::<PortableBackend>(portable(), &checked.layers(), pairs, plain, &mut rng)
                .expect("one");
        city.send_onions(client as u64, id, &sent.onions);
    }
    city.run_until(OPEN.plus_ms(4_000));
    assert!(city.returned_replies(0, id).is_some());
    city.told.clear();
    city.input(Input::FromClient(0, Frame::Round(id, FrameBody::Fetch { bucket: 1 })));
    let chunks = city.told[&0].iter().filter_map(|frame| match frame {
        Frame::Round(_, FrameBody::Chunk { bytes, .. }) => Some(bytes.clone()),
        _ => None,
    });
    chunks.collect::<Vec<_>>().concat()
}

fn one_bucket() -> City {
    let mut config = config(3);
    config.services.iter_mut().for_each(|service| service.buckets = 1);
    City::with_config(config)
}

#[test]
fn a_call_is_found_by_its_contact_among_noise_and_idle_clients() {
    let id = RoundId { service: Service::Call, round: 100 };
    let root = Secret::init_with(|s| s.fill(4));
    let calls = CallKeywheel::begin(&root, 100);
    let token = calls.token(Role::Initiator, Intent::Talk);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let home = contact::assign_bucket(&PublicKey([5; 32]), &NetworkId([0xaa; 16]), 1);
    let inner = vec![to_bucket(home, &token), no_call(&mut rng), no_call(&mut rng)];
    let filter = Filter::decode(&bucket_round(&mut one_bucket(), id, &inner)).expect("a set");
    let found = |role, intent| filter.may_hold(&calls.token(role, intent));
    assert!(found(Role::Initiator, Intent::Talk));
    assert!(!found(Role::Responder, Intent::Talk) && !found(Role::Initiator, Intent::ReadSoon));
    assert!(filter.count() > 30, "noise of three mixes");
}

#[test]
fn an_invitation_is_opened_by_the_one_it_is_for() {
    let id = RoundId { service: Service::Invitation, round: 100 };
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let bob = StaticKey::random::<PortableBackend>(&mut rng);
    let carol = StaticKey::random::<PortableBackend>(&mut rng);
    let said = Invitation { bucket: 1, body: Wiping::new([7; BODY_BYTES]) };
    let own = EphemeralKey::random::<PortableBackend>(&mut rng);
    let sealed = said.seal::<PortableBackend>(own, bob.public_key(), id.round).expect("a good key");
    let inner = vec![to_bucket(1, &sealed), no_invitation::<PortableBackend>(&mut rng)];
    let object = bucket_round(&mut one_bucket(), id, &inner);
    let all = bucket::split_invitations(&object).expect("an object");
    let opened = |own: &StaticKey| {
        let of = |sealed| Invitation::open::<PortableBackend>(own, sealed, id.round);
        all.iter().filter_map(of).collect::<Vec<_>>()
    };
    assert_eq!((opened(&bob), opened(&carol)), (vec![said], vec![]));
    assert!(all.len() > 30, "noise of three mixes");
    assert!(all.is_sorted(), "the order says nothing");
}

/// How often each size of frame went up from each client: talking and idling look alike.
#[test]
fn mix_22_who_watches_the_entry_sees_no_difference() {
    let mut city = conversations_alone();
    let mut people = [Person::default(), Person::default()];
    people[0].contacts.push(Contact::new(1, Role::Initiator));
    people[0].contacts[0].sender.push_message(1, &[1; 3_000]).expect("room");
    (0..2).for_each(|client| city.send_hello(client));
    let mut seen: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for number in 100..110 {
        let id = RoundId { service: Service::Conversation, round: number };
        city.run_until(OPEN.plus_ms(5_000 * (number - 100) + 500));
        let mut rng = ChaCha20Rng::seed_from_u64(number);
        for (client, person) in people.iter_mut().enumerate() {
            let pending = person.seal(&city, id, &mut rng);
            seen.entry(client).or_default().push(pending.sent.onions.len());
            person.read(pending, None);
        }
    }
    assert_eq!(seen[&0], seen[&1]);
}
