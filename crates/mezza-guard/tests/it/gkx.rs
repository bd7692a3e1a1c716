//! GKX: the numbers of the design, stacks, refusals, malicious guards.

use curve25519_dalek::scalar::Scalar;
use mezza_core::{CryptoRng, Hash512 as _, PortableBackend, PublicKey, Secret, Sha512, StaticKey};
use mezza_guard::coins::{Coins, GivenCoins, Uniform};
use mezza_guard::gkx::{
    GKX_CANDIDATES_MAX, GkxCandidate, GkxError, GkxGuard, GkxInitiator, GkxKeys, GkxResponder,
};
use mezza_guard::{FirewallError, Group as _, Ristretto};
use mezza_sim::SimRng;

type B = PortableBackend;

pub fn identity(byte: u8) -> StaticKey {
    StaticKey::from_scalar::<B>(Secret::init_with(|s| s.fill(byte)))
}

/// The scalar of a label, as the vectors have it.
pub fn scalar(label: &str) -> Scalar {
    Scalar::from_bytes_mod_order_wide(&Sha512::hash(&[label.as_bytes()]))
}

/// Guards of one end: the one next to the party first.
pub struct Guards(Vec<GkxGuard>);

impl Guards {
    pub fn dialling(k: usize) -> Self {
        Self((0..k).map(|_| GkxGuard::for_dialling()).collect())
    }

    pub fn answering(k: usize) -> Self {
        Self((0..k).map(|_| GkxGuard::for_answering()).collect())
    }

    fn out(
        &mut self,
        frame: Vec<u8>,
        coins: &mut dyn Coins<Ristretto>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Vec<u8>, FirewallError> {
        let group = Ristretto::new();
        self.0.iter_mut().try_fold(frame, |frame, w| w.change_outgoing(&group, &frame, coins, rng))
    }

    fn inwards(
        &mut self,
        frame: Vec<u8>,
        coins: &mut dyn Coins<Ristretto>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Vec<u8>, FirewallError> {
        let group = Ristretto::new();
        self.0
            .iter_mut()
            .rev()
            .try_fold(frame, |frame, w| w.change_incoming(&group, &frame, coins, rng))
    }
}

/// One exchange through both guards; `change` may change each frame on the wire.
fn exchange(
    [mut own, mut their]: [Guards; 2],
    change: &mut dyn FnMut(usize, &mut Vec<u8>),
    rng: &mut dyn CryptoRng,
) -> Result<[GkxKeys; 2], String> {
    let group = Ristretto::new();
    let alice = identity(1);
    let bob = identity(2);
    let coins = &mut Uniform;
    let mut wire = |number, mut frame: Vec<u8>| {
        change(number, &mut frame);
        frame
    };
    let text = |e: &dyn std::fmt::Debug| format!("{e:?}");
    let (initiator, g1) = GkxInitiator::begin::<B>(&group, &alice, bob.public_key(), coins, rng)
        .map_err(|e| text(&e))?;
    let g1 = wire(1, own.out(g1, coins, rng).map_err(|e| text(&e))?);
    let g1 = their.inwards(g1, coins, rng).map_err(|e| text(&e))?;
    let (responder, g2) = GkxResponder::answer(&group, &g1, coins, rng).map_err(|e| text(&e))?;
    let g2 = wire(2, their.out(g2, coins, rng).map_err(|e| text(&e))?);
    let g2 = own.inwards(g2, coins, rng).map_err(|e| text(&e))?;
    let (opened, g3) = initiator.open(&group, &g2).map_err(|e| text(&e))?;
    let g3 = wire(3, own.out(g3, coins, rng).map_err(|e| text(&e))?);
    let g3 = their.inwards(g3, coins, rng).map_err(|e| text(&e))?;
    let candidates = [9, 1, 8]
        .map(|byte| GkxCandidate::new::<B>(&bob, *identity(byte).public_key()).expect("a key"));
    let accepted =
        responder.finish(&group, &g3, bob.public_key(), &candidates).map_err(|e| text(&e))?;
    assert_eq!(accepted.candidate, 1);
    let g4 = wire(4, their.out(accepted.frame, coins, rng).map_err(|e| text(&e))?);
    let g4 = own.inwards(g4, coins, rng).map_err(|e| text(&e))?;
    Ok([opened.finish(&g4).map_err(|e| text(&e))?, accepted.keys])
}

fn agree([one, two]: &[GkxKeys; 2]) -> bool {
    one.initiator == two.initiator
        && one.responder == two.responder
        && one.initiator != one.responder
}

#[test]
fn guard_15_it_works_with_any_number_of_guards_at_either_end() {
    let mut dice = SimRng::new(15, 0);
    for k in [0, 1, 2, 4, 8] {
        for l in [0, 1, 3, 8] {
            let guards = [Guards::dialling(k), Guards::answering(l)];
            let keys = exchange(guards, &mut |_, _| {}, dice.rng()).expect("an exchange");
            assert!(agree(&keys), "{k} {l}");
        }
    }
}

/// A guard that multiplies by any factor is a guard; every other change of a frame ends the exchange.
#[test]
fn guard_14_whatever_is_changed_on_the_wire_ends_in_one_refusal() {
    let mut dice = SimRng::new(14, 0);
    let sizes = [66, 34, 82, 18];
    for number in 1..=4 {
        for at in [0, 1, 2, 17, 33, 40, sizes[number - 1] - 1] {
            if at >= sizes[number - 1] {
                continue;
            }
            let mut change = |seen: usize, frame: &mut Vec<u8>| {
                assert_eq!(frame.len(), sizes[seen - 1]);
                if seen == number {
                    frame[at] ^= 1;
                }
            };
            let guards = [Guards::dialling(0), Guards::answering(0)];
            let error = exchange(guards, &mut change, dice.rng()).expect_err("a refusal");
            assert_eq!(error, "Refused", "{number} {at}");
        }
        for cut in [true, false] {
            let mut change = |seen: usize, frame: &mut Vec<u8>| {
                if seen == number && cut {
                    frame.pop();
                } else if seen == number {
                    frame.push(0);
                }
            };
            let guards = [Guards::dialling(0), Guards::answering(0)];
            assert_eq!(
                exchange(guards, &mut change, dice.rng()).expect_err("a refusal"),
                "Refused"
            );
        }
    }
}

#[test]
fn guard_11_the_responder_answers_before_it_knows_x_and_both_refuse_bad_values() {
    let group = Ristretto::new();
    let mut dice = SimRng::new(11, 0);
    let rng = dice.rng();
    let alice = identity(1);
    let bob = identity(2);
    // A key of low order has no secret with anybody.
    let low = PublicKey([0; 32]);
    let begun = GkxInitiator::begin::<B>(&group, &alice, &low, &mut Uniform, rng);
    assert_eq!(begun.expect_err("no secret"), GkxError::Identity);
    assert_eq!(GkxCandidate::new::<B>(&bob, low).expect_err("no secret"), GkxError::Identity);
    // The identity as Y, and as an element of the commitment.
    let begin = |rng: &mut dyn CryptoRng| {
        GkxInitiator::begin::<B>(&group, &alice, bob.public_key(), &mut Uniform, rng).expect("G1")
    };
    let (initiator, g1) = begin(rng);
    let y = [&[1, 2][..], &[0; 32]].concat();
    assert_eq!(initiator.open(&group, &y).expect_err("the identity"), GkxError::Refused);
    let mut wrong = g1;
    wrong[34..].fill(0);
    let answer = GkxResponder::answer(&group, &wrong, &mut Uniform, rng);
    assert_eq!(answer.expect_err("the identity"), GkxError::Refused);
    // A commitment to X = 0 opens to the identity.
    let [r, s] = [group.draw_scalar(rng), group.draw_scalar(rng)];
    let zero = group.multiply(&group.g(), &group.invert(&group.g()));
    let [c1, c2] = mezza_guard::commit::commit_element(&group, &zero, [&r, &s]);
    let g1 = [&[1, 1][..], &group.encode(&c1), &group.encode(&c2)].concat();
    let (responder, _) = GkxResponder::answer(&group, &g1, &mut Uniform, rng).expect("G2");
    let g3 = [&[1, 3][..], &r.to_bytes(), &s.to_bytes(), &[0; 16]].concat();
    let end = responder.finish(&group, &g3, bob.public_key(), &[]);
    assert_eq!(end.expect_err("the identity"), GkxError::Refused);
}

#[test]
fn guard_13_candidates_are_tried_all_and_bounded() {
    let group = Ristretto::new();
    let mut dice = SimRng::new(13, 0);
    let rng = dice.rng();
    let alice = identity(1);
    let bob = identity(2);
    let run = |count: usize, place: usize, rng: &mut dyn CryptoRng| {
        let (initiator, g1) =
            GkxInitiator::begin::<B>(&group, &alice, bob.public_key(), &mut Uniform, rng)
                .expect("G1");
        let (responder, g2) = GkxResponder::answer(&group, &g1, &mut Uniform, rng).expect("G2");
        let (_, g3) = initiator.open(&group, &g2).expect("G3");
        let of = |at| if at == place { *alice.public_key() } else { *identity(7).public_key() };
        let candidates: Vec<_> =
            (0..count).map(|at| GkxCandidate::new::<B>(&bob, of(at)).expect("a key")).collect();
        responder
            .finish(&group, &g3, bob.public_key(), &candidates)
            .map(|accepted| accepted.candidate)
    };
    assert_eq!(run(20, 0, rng), Ok(0));
    assert_eq!(run(20, 19, rng), Ok(19));
    assert_eq!(run(20, 99, rng), Err(GkxError::Refused));
    assert_eq!(run(GKX_CANDIDATES_MAX + 1, 0, rng), Err(GkxError::Candidates));
}

/// GUARD-12 and the numbers of the design: tags and keys are what S, ss and the identities give,
/// whatever coins the guards have.
#[test]
fn guard_12_tags_and_keys_depend_on_the_shared_element_and_identities_alone() {
    let group = Ristretto::new();
    let mut dice = SimRng::new(12, 0);
    let rng = dice.rng();
    let hex = |bytes: &[u8]| data_encoding::HEXLOWER.encode(bytes);
    let given = |labels: &[&str]| {
        GivenCoins::new(labels.iter().map(|l| scalar(&format!("test gkx {l}"))).collect::<Vec<_>>())
    };
    let alice = identity(1);
    let bob = identity(2);
    let (initiator, g1) = GkxInitiator::begin::<B>(
        &group,
        &alice,
        bob.public_key(),
        &mut given(&["x", "r", "s"]),
        rng,
    )
    .expect("G1");
    assert_eq!(hex(&g1[2..34]), "8c22ea2824eaf239c9b6bfe8d0cda7221f466ff793d85de0a3b96cca80f16457");
    assert_eq!(hex(&g1[34..]), "f869b0751c3e0f8336caf7376ee6e544ecb924a0f9b660fa59abc6875bcefa5c");
    let mut own = GkxGuard::for_dialling();
    let mut their = GkxGuard::for_answering();
    let g1 =
        own.change_outgoing(&group, &g1, &mut given(&["alpha", "u", "v"]), rng).expect("G1 out");
    assert_eq!(hex(&g1[2..34]), "88deeffcd10d70d8f7a4afd55c3705d8e30455257dae0570385353f3782a4a79");
    assert_eq!(hex(&g1[34..]), "1a40f32107aa4522fa2a2d29d1e96b32296fd424c932ab9ed41ed539e43b6810");
    let g1 = their.change_incoming(&group, &g1, &mut given(&["beta"]), rng).expect("G1 in");
    let (responder, g2) = GkxResponder::answer(&group, &g1, &mut given(&["y"]), rng).expect("G2");
    assert_eq!(hex(&g2[2..]), "8a8997c38a68ac82d84d6307f3ad26205e969ac0f978118d3441168ee66bb445");
    let g2 = their.change_outgoing(&group, &g2, &mut Uniform, rng).expect("G2 out");
    assert_eq!(hex(&g2[2..]), "0876d7c3cd2d25e3c5038da1fd72d3f0b01e933dfc49d1aa971cf42f3a86a71e");
    let g2 = own.change_incoming(&group, &g2, &mut Uniform, rng).expect("G2 in");
    assert_eq!(hex(&g2[2..]), "18e59048abd317e05b4d2d91c81f9c1fca5ee3f35d8c58ffc8083ab48ea4a321");
    let (opened, g3) = initiator.open(&group, &g2).expect("G3");
    assert!(!own.awaits_answer());
    let g3 = own.change_outgoing(&group, &g3, &mut Uniform, rng).expect("G3 out");
    assert!(own.awaits_answer());
    assert_eq!(hex(&g3[2..34]), "60853fa4f21c24742f55e2e4486da22f494e5c9b851c120d2e6f3eea16135900");
    assert_eq!(
        hex(&g3[34..66]),
        "ef7f49a61a0d448818f391c0c97a7f6cb616e48da376a30b24c69f3308493a06"
    );
    let g3 = their.change_incoming(&group, &g3, &mut Uniform, rng).expect("G3 in");
    let candidates = [GkxCandidate::new::<B>(&bob, *alice.public_key()).expect("a key")];
    let accepted = responder.finish(&group, &g3, bob.public_key(), &candidates).expect("accepted");
    let g4 = their.change_outgoing(&group, &accepted.frame, &mut Uniform, rng).expect("G4 out");
    let g4 = own.change_incoming(&group, &g4, &mut Uniform, rng).expect("G4 in");
    assert!(own.is_done() && their.is_done() && !own.awaits_answer());
    assert!(agree(&[opened.finish(&g4).expect("keys"), accepted.keys]));
}

/// GUARD-16: a tag that is wrong in any byte is refused; the code compares with `subtle`.
#[test]
fn guard_16_a_wrong_tag_is_refused_wherever_it_is_wrong() {
    let mut dice = SimRng::new(16, 0);
    for at in 2..18 {
        let mut change = |seen: usize, frame: &mut Vec<u8>| {
            if seen == 4 {
                frame[at] ^= 0x80;
            }
        };
        let guards = [Guards::dialling(1), Guards::answering(1)];
        assert_eq!(exchange(guards, &mut change, dice.rng()).expect_err("refused"), "Refused");
    }
}

/// A change that a guard makes to the frame of a number.
type Lie<'a> = &'a dyn Fn(usize, &mut Vec<u8>);

/// A guard that lies: identity, swapped elements, another factor for Y than for C, old frames. The
/// client aborts, or agrees on what neither frames nor coins of the guard determine.
#[test]
fn promise_4_a_malicious_guard_is_a_network_attacker_and_nothing_more() {
    let group = Ristretto::new();
    let mut dice = SimRng::new(4, 0);
    let swap = |frame: &mut Vec<u8>| frame[2..66].rotate_left(32);
    let other = group.encode(&group.h());
    let lies: [Lie<'_>; 5] = [
        &|n, frame| {
            if n == 1 {
                frame[2..34].fill(0);
            }
        },
        &|n, frame| {
            if n == 1 {
                swap(frame);
            }
        },
        &|n, frame| {
            if n == 2 {
                frame[2..].copy_from_slice(&other);
            }
        },
        &|n, frame| {
            if n == 3 {
                swap(frame);
            }
        },
        &|n, frame| {
            if n == 2 {
                *frame = vec![1, 4];
            }
        },
    ];
    for lie in lies {
        let guards = [Guards::dialling(0), Guards::answering(0)];
        let error =
            exchange(guards, &mut |n, frame| lie(n, frame), dice.rng()).expect_err("aborts");
        assert_eq!(error, "Refused");
    }
    // Frames of an older exchange.
    let mut old = Vec::new();
    let guards = || [Guards::dialling(0), Guards::answering(0)];
    exchange(guards(), &mut |_, frame| old.push(frame.clone()), dice.rng()).expect("an exchange");
    for replayed in 1..=4 {
        let mut replay = |n: usize, frame: &mut Vec<u8>| {
            if n == replayed {
                frame.clone_from(&old[n - 1]);
            }
        };
        assert!(exchange(guards(), &mut replay, dice.rng()).is_err(), "{replayed}");
    }
}
