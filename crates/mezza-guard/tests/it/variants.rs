//! The variants: agreement, stacks, refusals, and P1 gone through in full.

use std::collections::BTreeMap;

use mezza_guard::coins::{GivenCoins, Uniform};
use mezza_guard::commit;
use mezza_guard::dh_comm::Committer;
use mezza_guard::elgamal::Encryptor;
use mezza_guard::firewall::{
    AnsweringFirewall, AnyFirewall, CommittingFirewall, DhFirewall, KeyMaulFirewall,
    ReMaulFirewall, RerandFirewall, STACK_MAX,
};
use mezza_guard::{Firewall, FirewallError, Group, GroupError, Message, Ristretto};
use mezza_sim::SimRng;

use crate::session::{
    answering_wall, comm_agrees, committing_wall, dh_agrees, dh_wall, eg_agrees, encryptor_wall,
    opening_of, owner_wall,
};
use crate::toy::{Q, Toy};

/// All variants agree behind `k` firewalls at one end and `l` at the other.
fn all_agree<G: Group + 'static>(group: &G, k: usize, l: usize, dice: &mut SimRng) {
    let rng = dice.rng();
    assert!(dh_agrees(group, [dh_wall(group, k), dh_wall(group, l)], &mut Uniform, rng));
    let walls = [committing_wall(group, k), answering_wall(group, l)];
    assert!(comm_agrees(group, walls, &mut Uniform, rng));
    for remauls in [false, true] {
        let walls = [encryptor_wall(group, k, remauls), owner_wall(group, l)];
        assert!(eg_agrees(group, walls, &mut Uniform, rng), "{k} {l} {remauls}");
    }
}

#[test]
fn guard_8_stacks_preserve_agreement_and_decryption() {
    let group = Ristretto::new();
    let mut dice = SimRng::new(8, 0);
    for k in 0..=STACK_MAX {
        for l in 0..=STACK_MAX {
            all_agree(&group, k, l, &mut dice);
        }
    }
    for _ in 0..50 {
        all_agree(&group, 1, 1, &mut dice);
    }
}

/// The bytes that are no element of ristretto255: RFC 9496, appendix A.2, in part, and the identity.
fn bad_elements() -> Vec<Vec<u8>> {
    let mut bad = vec![vec![0; 32], vec![0xff; 32], vec![1; 31], vec![1; 33], Vec::new()];
    // Not canonical: p, and a negative one.
    let mut p = vec![0xff; 32];
    (p[0], p[31]) = (0xed, 0x7f);
    bad.push(p);
    let mut one = vec![0; 32];
    one[0] = 1;
    bad.push(one);
    bad
}

#[test]
fn guard_1_every_element_is_canonical_and_proper() {
    let group = Ristretto::new();
    for bytes in bad_elements() {
        assert_eq!(group.decode(&bytes), Err(GroupError::Element), "{bytes:?}");
        for kind in [1, 4] {
            let message = [vec![kind], bytes.clone()].concat();
            assert!(Message::decode(&group, &message).is_err());
        }
        for kind in [2, 5, 6] {
            let good = group.encode(&group.g());
            for fields in [[&bytes, &good], [&good, &bytes]] {
                let message = [&[kind][..], fields[0], fields[1]].concat();
                assert!(Message::decode(&group, &message).is_err());
            }
        }
    }
    assert_eq!(group.decode(&group.encode(&group.h())), Ok(group.h()));
}

#[test]
fn guard_2_scalars_at_and_above_the_order_are_refused() {
    let group = Ristretto::new();
    let last = group.encode_scalar(&group.draw_scalar(SimRng::new(1, 0).rng()));
    assert!(group.decode_scalar(&last).is_ok());
    // q, q + 1, and the largest number, little-endian.
    let mut q = [0; 32];
    q[..16].copy_from_slice(&[
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde,
        0x14,
    ]);
    q[31] = 0x10;
    let mut above = q;
    above[0] += 1;
    for bytes in [q, above, [0xff; 32]] {
        assert_eq!(group.decode_scalar(&bytes), Err(GroupError::Scalar));
        let message = [&[3][..], &[0; 32], &bytes].concat();
        assert!(Message::decode(&group, &message).is_err());
    }
}

#[test]
fn guard_3_coins_that_multiply_are_never_zero() {
    let mut dice = SimRng::new(3, 0);
    let draws = (0..2_000).map(|_| (Toy.draw_nonzero(dice.rng()), Toy.draw_scalar(dice.rng())));
    let (power, shift): (Vec<_>, Vec<_>) = draws.unzip();
    assert!(!power.contains(&0) && shift.contains(&0));
    assert!((1..Q).all(|x| power.contains(&x)) && (0..Q).all(|x| shift.contains(&x)));
}

#[test]
fn guard_5_messages_have_fixed_sizes() {
    let group = Ristretto::new();
    let mut dice = SimRng::new(5, 0);
    let rng = dice.rng();
    let [g, h] = [group.g(), group.h()];
    let s = group.draw_scalar(rng);
    for (message, bytes) in [
        (Message::key(g), 33),
        (Message::commitment(g, h), 65),
        (Message::opening(s, s), 65),
        (Message::encryption_key(g), 33),
        (Message::mauled_key(g, h), 65),
        (Message::ciphertext(g, h), 65),
    ] {
        let encoded = message.encode(&group);
        assert_eq!(encoded.len(), bytes);
        assert_eq!(Message::decode(&group, &encoded), Ok(message));
        for cut in 0..encoded.len() {
            assert!(Message::decode(&group, &encoded[..cut]).is_err());
        }
        assert!(Message::decode(&group, &[&encoded[..], &[0]].concat()).is_err());
    }
    assert_eq!(Message::decode(&group, &[7; 33]), Err(GroupError::Message));
}

/// The right way through a firewall: of each message whether it goes out, and its kind.
type Script = &'static [(bool, u8)];

/// Gives a firewall every message in every state; what it refuses leaves it as it was, which shows in
/// what the right message gives afterwards.
#[test]
fn guard_6_out_of_order_is_refused_and_changes_nothing() {
    let group = Ristretto::new();
    let mut dice = SimRng::new(6, 0);
    let [g, h] = [group.g(), group.h()];
    let s = group.draw_scalar(dice.rng());
    let any = [
        Message::key(g),
        Message::commitment(g, h),
        Message::opening(s, s),
        Message::encryption_key(g),
        Message::mauled_key(g, h),
        Message::ciphertext(g, h),
    ];
    let mut walls: [(AnyFirewall<Ristretto>, Script); 5] = [
        (Box::new(DhFirewall::new(group.clone())), &[(true, 1), (false, 1)]),
        (Box::new(AnsweringFirewall::new(group.clone())), &[(false, 2), (true, 1), (false, 3)]),
        (Box::new(KeyMaulFirewall::new(group.clone())), &[(true, 4), (false, 6)]),
        (Box::new(RerandFirewall::new(group.clone())), &[(false, 4), (true, 6)]),
        (Box::new(ReMaulFirewall::new(group.clone())), &[(false, 4), (true, 6)]),
    ];
    let mut pass =
        |wall: &mut Box<dyn Firewall<Ristretto>>, is_out, message: Message<Ristretto>| {
            if is_out {
                wall.change_outgoing(message, dice.rng())
            } else {
                wall.change_incoming(message, dice.rng())
            }
        };
    for (wall, script) in &mut walls {
        for (step, &(way, kind)) in script.iter().enumerate() {
            for message in &any {
                for is_out in [true, false] {
                    // The first message of Diffie-Hellman may go either way, a public key may be mauled.
                    let key_again = [4, 5].contains(&kind) && message.kind() == 5;
                    let either = kind == 1 && step == 0;
                    if (is_out == way || either) && message.kind() == kind || key_again {
                        continue;
                    }
                    assert!(pass(wall, is_out, message.clone()).is_err(), "{kind} {message:?}");
                }
            }
            let right =
                any.iter().find(|message| message.kind() == kind).expect("of each kind one");
            assert!(pass(wall, way, right.clone()).is_ok());
        }
    }
}

#[test]
fn guard_7_an_opening_that_does_not_fit_stays_inside() {
    let group = Ristretto::new();
    let mut dice = SimRng::new(7, 0);
    let rng = dice.rng();
    let mut wall = CommittingFirewall::new(group.clone());
    let (committer, commitment) = Committer::begin(&group, &mut Uniform, rng);
    assert_eq!(wall.change_outgoing(Message::key(group.g()), rng), Err(FirewallError::Order));
    wall.change_outgoing(commitment, rng).expect("a commitment");
    let (opening, _) = committer.finish(&group, &group.g()).expect("a key");
    assert_eq!(wall.change_outgoing(opening.clone(), rng), Err(FirewallError::Order));
    wall.change_incoming(Message::key(group.g()), rng).expect("an answer");
    let [r, s] = opening_of(&opening);
    let wrong = Message::opening(group.add_scalars(r, s), *s);
    assert_eq!(wall.change_outgoing(wrong, rng), Err(FirewallError::Opening));
    assert!(wall.change_outgoing(opening, rng).is_ok());
    // A commitment to the identity: the opening fits, and X' is 1 whatever the coins are.
    let [r, s] = [group.draw_scalar(rng), group.draw_scalar(rng)];
    let one = group.multiply(&group.g(), &group.invert(&group.g()));
    let [c1, c2] = commit::commit_element(&group, &one, [&r, &s]);
    let mut wall = CommittingFirewall::new(group.clone());
    wall.change_outgoing(Message::commitment(c1, c2), rng).expect("a commitment");
    wall.change_incoming(Message::key(group.g()), rng).expect("an answer");
    assert_eq!(wall.change_outgoing(Message::opening(r, s), rng), Err(FirewallError::Opening));
}

/// Outgoing values, counted.
type Law = BTreeMap<Vec<u8>, u32>;

/// Returns the output of a committing firewall with these coins for this choice of the device; `None` if the
/// firewall refuses, because an element is the identity.
fn committed([x, r, s]: [u64; 3], coins: [u64; 3]) -> Option<Vec<u8>> {
    let mut dice = SimRng::new(0, 0);
    let rng = dice.rng();
    let mut wall = CommittingFirewall::with_coins(Toy, GivenCoins::new(coins));
    let [c1, c2] = commit::commit_element(&Toy, &Toy.power_g(&x), [&r, &s]);
    let out = wall.change_outgoing(Message::commitment(c1, c2), rng).ok()?;
    wall.change_incoming(Message::key(Toy.g()), rng).expect("an answer");
    let opening = wall.change_outgoing(Message::opening(r, s), rng).expect("a right opening");
    Some([out.encode(&Toy), opening.encode(&Toy)].concat())
}

fn law(
    all_coins: impl Iterator<Item = [u64; 3]>,
    seen: impl Fn([u64; 3]) -> Option<Vec<u8>>,
) -> Law {
    let mut law = Law::new();
    for seen in all_coins.filter_map(seen) {
        *law.entry(seen).or_default() += 1;
    }
    law
}

/// Every value of three coins; the first `powers` of them are not 0.
fn all_coins(powers: usize) -> impl Iterator<Item = [u64; 3]> {
    let from = move |at: usize| u64::from(at < powers);
    (from(0)..Q)
        .flat_map(move |a| (from(1)..Q).flat_map(move |b| (from(2)..Q).map(move |c| [a, b, c])))
}

/// P1 for commitments, gone through in full: whatever the device chooses, the joint law of C1', C2', r'
/// and s' over the coins of the firewall is one and the same.
#[test]
fn promise_1_the_law_of_what_leaves_is_the_same_for_every_device() {
    let of_device = |device| law(all_coins(1), |coins| committed(device, coins));
    let devices = || all_coins(1).filter(|device| committed(*device, [1, 1, 1]).is_some());
    let first = of_device([1, 1, 0]);
    assert!(first.len() > 900 && first.values().all(|count| *count == 1));
    // All devices take minutes; every seventh goes through every residue of x, r and s.
    for device in devices().step_by(7) {
        assert!(of_device(device) == first, "{device:?}");
    }
}

/// P1 for ciphertexts: a fresh encryption of the same plaintext, whatever b the encryptor chose.
#[test]
fn promise_1_a_rerandomised_ciphertext_forgets_the_coin_of_the_encryptor() {
    let key = Toy.power_g(&7);
    let text = Toy.power_g(&5);
    let rng = || SimRng::new(0, 0);
    let of_device = |b: u64, remauls: bool| {
        law(all_coins(if remauls { 2 } else { 1 }), |[one, two, three]| {
            let mut wall: Box<dyn Firewall<Toy>> = if remauls {
                Box::new(ReMaulFirewall::with_coins(Toy, GivenCoins::new([one, two, three])))
            } else {
                Box::new(RerandFirewall::with_coins(Toy, GivenCoins::new([two])))
            };
            let shown = wall.change_incoming(Message::encryption_key(key), rng().rng()).ok()?;
            let encryptor = Encryptor::new(&Toy, &shown).ok()?;
            let coins = &mut GivenCoins::new([b]);
            let ciphertext = encryptor.encrypt(&Toy, &text, coins, rng().rng());
            Some(wall.change_outgoing(ciphertext, rng().rng()).expect("a ciphertext").encode(&Toy))
        })
    };
    for remauls in [false, true] {
        let first = of_device(1, remauls);
        assert_eq!(first.len(), 11, "c0 is uniform and decides c1");
        assert!((1..Q).all(|b| of_device(b, remauls) == first));
    }
}
