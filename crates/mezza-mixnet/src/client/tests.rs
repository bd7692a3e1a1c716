use super::*;
use crate::config::tests::{config, service, signed};
use crate::config::{Chain, SignatureSet};
use crate::contact::{ConversationKeywheel, Role};
use crate::onion::open_reply;
use crate::service::{RoundId, Service, reply_bytes};
use crate::wire::cell::{MalformedCell, Piece};
use crate::wire::{Cell, Settings, SignedSettings};
use alloc::vec;
use mezza_core::{AeadKey as _, EphemeralKey, PortableBackend, Secret};
use mezza_lanes::{BASE, portable};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

const NOW: Time = Time::from_ms(1_001_000);

fn dice(n: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(n)
}

fn chain() -> Chain {
    let config = config(3);
    Chain::begin(&config.hash(), &signed(&config, SignatureSet::Own, &[0, 1])).expect("genesis")
}

fn public(scalar: u8) -> [u8; 32] {
    let mut out = [[0; 32]];
    portable().x25519_pairwise(&[[scalar; 32]], &[BASE], &mut out);
    out[0]
}

/// Settings of round 101, changed and then signed by all mixes.
fn announced(change: impl FnOnce(&mut Settings)) -> SignedSettings {
    let mut settings = Settings {
        config: config(3).hash(),
        id: RoundId { service: Service::Conversation, round: 101 },
        collect_ms: 4_000,
        slots: 1,
        buckets: 1,
        policy: 0,
        keys: [1, 2, 3].map(public).to_vec(),
    };
    change(&mut settings);
    let signatures = (50..53).map(|n| settings.sign(&crate::config::tests::signer(n))).collect();
    SignedSettings { settings, signatures, closes_in_ms: 0 }
}

fn check(announced: &SignedSettings) -> Result<CheckedSettings, SettingsError> {
    CheckedSettings::check(announced, &chain(), Some(100), NOW, portable())
}

#[test]
fn mix_5_a_client_wants_the_signature_of_every_mix() {
    assert!(check(&announced(|_| {})).is_ok());
    for mix in 0..3 {
        let mut wrong = announced(|_| {});
        wrong.signatures[mix][5] ^= 1;
        assert_eq!(check(&wrong).err(), Some(SettingsError::Unsigned));
    }
    let mut fewer = announced(|_| {});
    fewer.signatures.pop();
    assert_eq!(check(&fewer).err(), Some(SettingsError::Unsigned));
    let mut other = announced(|_| {});
    other.settings.keys[2] = public(9);
    assert_eq!(check(&other).err(), Some(SettingsError::Unsigned), "a key of the entry's choice");
    let old = CheckedSettings::check(&announced(|_| {}), &chain(), Some(101), NOW, portable());
    assert_eq!(old.err(), Some(SettingsError::Old));
    let changes: [fn(&mut Settings); 4] =
        [|s| s.config[0] ^= 1, |s| s.slots = 2, |s| s.policy = 1, |s| s.collect_ms += 1];
    for change in changes {
        assert_eq!(check(&announced(change)).err(), Some(SettingsError::Differ));
    }
}

#[test]
fn mix_6_keys_that_give_no_secret_are_refused() {
    let mut one = [0; 32];
    one[0] = 1;
    let mut twist = [0; 32];
    twist[0] = 2;
    for bad in [[0; 32], one, twist, public(1)] {
        let settings = announced(|settings| settings.keys[1] = bad);
        assert_eq!(check(&settings).err(), Some(SettingsError::BadKey), "{bad:02x?}");
    }
}

#[test]
fn mix_34_a_client_takes_no_far_round() {
    for (round, taken) in [(102, true), (111, true), (115, false), (u64::MAX, false)] {
        let settings = announced(|settings| settings.id.round = round);
        let error = (!taken).then_some(SettingsError::Clock);
        assert_eq!(check(&settings).err(), error, "round {round}");
    }
}

#[test]
fn mix_74_times_are_uniform_and_leave_room_to_seal() {
    let policy = service(Service::Conversation);
    let open = NOW;
    let mut rng = dice(1);
    let announced = open.minus_ms(5_000);
    let mut sends = [0_u32; 10];
    let mut fetches = [0_u32; 10];
    for _ in 0..10_000 {
        let timing = Timing::draw(&policy, open, announced, &mut rng);
        let after = timing.send.since_ms(open);
        assert!((250..=3_750).contains(&after) && timing.send.since_ms(timing.seal) == 2_000);
        sends[((after - 250) * 10 / 3_501) as usize] += 1;
        fetches[(timing.fetch_ms * 10 / 2_001) as usize] += 1;
    }
    for tenths in [sends, fetches] {
        assert!(tenths.iter().all(|n| n.abs_diff(1_000) < 190), "{tenths:?}");
    }
    let quick = ServicePolicy { collect_ms: 4, ..policy };
    let timing = Timing::draw(&quick, open, open, &mut rng);
    assert!(timing.seal >= open && timing.seal < timing.send && timing.send.since_ms(open) < 4);
}

#[test]
fn pairs_meet_as_often_as_their_contacts_let_them() {
    for (a, b) in [(1, 1), (2, 3), (5, 4)] {
        let root = |n: u8| Secret::init_with(|s| s.fill(n));
        let contact = |n: u8| ConversationKeywheel::begin(&root(n), Role::Initiator, 0);
        // Contact 0 is the one that both have.
        let side = |from: u8, n: u8| {
            core::iter::once(contact(0))
                .chain((1..n).map(|i| contact(from + i)))
                .collect::<Vec<_>>()
        };
        let mut alice = side(100, a);
        let mut bob = side(200, b);
        let rounds = 20_000;
        let serves = |side: &mut Vec<ConversationKeywheel>, round: u64| {
            for chain in side.iter_mut() {
                assert_eq!(chain.advance_to(round, 1), Ok(true));
            }
            select_served(&side.iter().map(ConversationKeywheel::meeting).collect::<Vec<_>>(), 1)
                == [0]
        };
        let met = (0..rounds)
            .filter(|round| serves(&mut alice, *round) & serves(&mut bob, *round))
            .count();
        let met = f64::from(u32::try_from(met).expect("a small count"));
        let p = 1.0 / f64::from(a + b - 1);
        let n = 20_000.0;
        assert!((met - p * n).abs() <= 3.0 * libm::sqrt(p * (1.0 - p) * n), "{a}, {b}: {met}");
    }
}

#[test]
fn an_access_reads_its_three_answers() {
    let root = Secret::init_with(|s| s.fill(7));
    let chain = |role| ConversationKeywheel::begin(&root, role, 9);
    let cell =
        |text: &[u8]| Cell { leaving: false, seq: 1, ack: 2, sack: 3, piece: Piece::new(text) };
    let alice = || {
        Access::seal_cell::<PortableBackend>(
            chain(Role::Initiator).take_round_keys(),
            &cell(b"hello"),
        )
    };
    let bob = Access::seal_cell::<PortableBackend>(
        chain(Role::Responder).take_round_keys(),
        &cell(b"hi"),
    );
    assert_eq!(alice().bytes()[..16], bob.bytes()[..16], "one drop");
    let reply = |access: &Access| access.bytes()[16..].to_vec();
    assert_eq!(alice().read_reply::<PortableBackend>(&reply(&alice())), DropResult::Absent);
    assert_eq!(
        alice().read_reply::<PortableBackend>(&reply(&bob)),
        DropResult::Met(Ok(cell(b"hi")))
    );
    let mut torn = reply(&bob);
    torn[9] ^= 1;
    assert_eq!(alice().read_reply::<PortableBackend>(&torn), DropResult::Garbage);
    assert_eq!(alice().read_reply::<PortableBackend>(&torn[1..]), DropResult::Garbage);
    // A partner whose cell is malformed was present in the round all the same.
    let mut odd = Cell { leaving: false, seq: 1, ack: 2, sack: 3, piece: None }.encode();
    odd[0] = 0x80;
    let turn = chain(Role::Responder).take_round_keys();
    let chacha = <PortableBackend as Backend>::Chacha::new(turn.seal.expose());
    let tag = chacha.seal(&[0; 12], &[], &mut odd);
    assert_eq!(
        alice().read_reply::<PortableBackend>(&[&odd[..], &tag].concat()),
        DropResult::Met(Err(MalformedCell))
    );
}

#[test]
fn mix_22_idle_slots_have_the_lengths_of_busy_ones() {
    let mut rng = dice(3);
    let idle = || Access::for_idle_slot::<PortableBackend>(5, &mut dice(4));
    assert_eq!(idle().bytes().len(), Service::Conversation.innermost_bytes());
    assert_ne!(idle().bytes(), Access::for_idle_slot::<PortableBackend>(5, &mut rng).bytes());
    assert_eq!(idle().read_reply::<PortableBackend>(&idle().bytes()[16..]), DropResult::Absent);
    let call = no_call(&mut rng);
    let invitation = no_invitation::<PortableBackend>(&mut rng);
    assert_eq!(call.len(), Service::Call.innermost_bytes());
    assert_eq!(invitation.len(), Service::Invitation.innermost_bytes());
    assert_eq!((&call[..4], &invitation[..4]), (&[0; 4][..], &[0; 4][..]));
    assert_eq!(to_bucket(7, &[1; 16])[..5], [0, 0, 0, 7, 1]);
}

#[test]
fn mix_32_debug_output_of_a_slot_names_no_drop() {
    let access = Access::for_idle_slot::<PortableBackend>(5, &mut dice(4));
    assert_eq!(alloc::format!("{access:?}"), "Access");
}

#[test]
fn what_a_client_wraps_the_mixes_open_and_their_replies_it_reads() {
    let mut rng = dice(5);
    let settings = check(&announced(|_| {})).expect("good settings");
    let mut inner = vec![0; 2 * 272];
    rng.fill_bytes(&mut inner);
    let pairs = |count| {
        [6, 7][..count]
            .iter()
            .map(|n| EphemeralKey::random::<PortableBackend>(&mut dice(*n)))
            .collect()
    };
    let layers = settings.layers();
    assert!(
        wrap_slots::<PortableBackend>(portable(), &layers, pairs(1), &inner, &mut rng).is_none()
    );
    let sent = wrap_slots::<PortableBackend>(portable(), &layers, pairs(2), &inner, &mut rng)
        .expect("two");
    let mut batch = sent.onions;
    let mut backs = Vec::new();
    for (i, layer) in layers.iter().enumerate() {
        let secret = mezza_lanes::Scalar::copy_from(&[1 + i as u8; 32]);
        let size = Service::Conversation.onion_bytes(3 - i);
        let got = crate::onion::unwrap_layer(portable(), &secret, layer, &batch, size);
        assert_eq!(got.opened, [1, 1]);
        batch = got.inner_onions().collect::<Vec<_>>().concat();
        backs.push(got.reply_keys);
    }
    assert_eq!(batch, inner);
    let mut replies = vec![7; 2 * 256];
    for (layers, back) in backs.iter().rev().enumerate() {
        replies = crate::onion::seal_replies(portable(), back, &replies, reply_bytes(layers));
    }
    for (reply, keys) in replies.chunks_exact(304).zip(&sent.reply_keys) {
        assert_eq!(open_reply(portable(), keys, reply.to_vec()), Some(vec![7; 256]));
        assert_eq!(open_reply(portable(), keys, reply[1..].to_vec()), None);
    }
}
