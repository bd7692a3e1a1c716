//! Tests whether run time depends on a secret, with [`mezza_sim::timing`]: the operations of
//! parties and guards on coins and secret scalars (GUARD-4), both comparisons (GUARD-16, GUARD-25),
//! and leaky variants that the test must detect.
//!
//! `cargo run --release -p mezza-guard --example guard_timing -- 100000` takes this number of
//! measurements for each operation. It exits with 1 if |t| reaches 4.5 for an operation, or stays
//! below for a leaky variant. Scalars of class 0 have a few bits, those of class 1 are random. In a
//! comparison, class 0 differs in the first byte and class 1 in the last.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that measures"
)]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use mezza_core::{PortableBackend, PublicKey, Secret, StaticKey};
use mezza_guard::coin::{
    CoinEncoding, CoinKeyPair, CoinPurpose, CoinSecret, Rho, SlotIndex, SlotName,
};
use mezza_guard::coins::{GivenCoins, Uniform};
use mezza_guard::firewall::{AnsweringFirewall, CommittingFirewall, DhFirewall};
use mezza_guard::gkx::{GkxCandidate, GkxInitiator, GkxOpened, GkxResponder};
use mezza_guard::keys::GuardClientId;
use mezza_guard::{Firewall, Group, Message, Ristretto, commit};
use mezza_sim::SimRng;
use mezza_sim::timing::{LIMIT, welch_t};

type Scalar = <Ristretto as Group>::Scalar;
type Point = <Ristretto as Group>::Element;

/// Number of inputs of a class. Drawing them is not measured.
const INPUTS: usize = 256;

/// Secret scalars of both classes.
struct Scalars([Vec<Scalar>; 2]);

impl Scalars {
    fn new(dice: &mut SimRng) -> Self {
        let group = Ristretto::new();
        let few = (0..INPUTS as u64).map(|n| Scalar::from(n % 7 + 1)).collect();
        let any = (0..INPUTS).map(|_| group.draw_nonzero(dice.rng())).collect();
        Self([few, any])
    }

    /// Returns the t statistic of an operation on scalars.
    fn time_operation<R>(&self, count: usize, operation: impl FnMut(Scalar) -> R) -> f64 {
        self.time_prepared(count, |scalar| scalar, operation)
    }

    /// Returns the t statistic of an operation on a value that is prepared from a scalar outside of
    /// the measured time.
    fn time_prepared<T, R>(
        &self,
        count: usize,
        mut make: impl FnMut(Scalar) -> T,
        mut operation: impl FnMut(T) -> R,
    ) -> f64 {
        welch_t(count, |class, dice| {
            let at = dice.between(0, INPUTS as u64 - 1) as usize;
            let input = make(black_box(self.0[usize::from(class)][at]));
            measure_ns(|| operation(black_box(input)))
        })
    }
}

/// Returns the nanoseconds of one call.
fn measure_ns<R>(operation: impl FnOnce() -> R) -> f64 {
    let start = Instant::now();
    black_box(operation());
    start.elapsed().as_secs_f64() * 1e9
}

/// Returns a right value with one bit changed, in its first and in its last byte.
fn wrong_copies<const N: usize>(right: [u8; N], first: usize) -> [[u8; N]; 2] {
    [first, N - 1].map(|at| {
        let mut wrong = right;
        wrong[at] ^= 1;
        wrong
    })
}

/// Returns the t statistic of a comparison with either wrong value. Both values are made ahead:
/// reading a byte just after it was written would be slower if the byte is alone in its word.
fn time_comparison<T, R, const N: usize>(
    count: usize,
    wrong: &[[u8; N]; 2],
    mut make: impl FnMut([u8; N]) -> T,
    mut operation: impl FnMut(T) -> R,
) -> f64 {
    welch_t(count, |class, _| {
        let input = make(black_box(wrong)[usize::from(class)]);
        measure_ns(|| operation(black_box(input)))
    })
}

/// Compares up to the first byte that differs: a leak that the test must detect.
fn leaky_comparison(a: &[u8; 32], b: &[u8; 32]) -> bool {
    a.iter().zip(b).all(|(a, b)| black_box(a) == black_box(b))
}

/// Multiplies by doubling, and adds only for bits that are set: a leak that the test must detect.
fn multiply_leaky(point: &Point, scalar: &Scalar) -> Point {
    let bits =
        scalar.as_bytes().iter().rev().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1));
    bits.fold(Point::default(), |sum, bit| {
        let double = sum + sum;
        if bit == 1 { double + point } else { double }
    })
}

const SLOT: SlotIndex = SlotIndex {
    name: SlotName { client: GuardClientId([1; 16]), purpose: CoinPurpose::LinkDialling, dest: 1 },
    index: 0,
};

fn make_rho(scalar: &Scalar) -> Rho {
    Rho::decode(&scalar.to_bytes()).expect("a scalar")
}

fn make_pair(scalar: &Scalar) -> CoinKeyPair {
    let coin = make_rho(&Scalar::from(1_u8));
    make_secret(*scalar).with_coin(&SLOT, &coin.commitment(&SLOT), &coin).expect("a key")
}

fn time_arithmetic(group: &Ristretto, scalars: &Scalars, count: usize) -> Vec<(&'static str, f64)> {
    let h = group.h();
    let other = Scalar::from(0x1234_5678_9abc_def0_u64);
    vec![
        ("power of any base", scalars.time_operation(count, |s| group.power(&h, &s))),
        ("power of g, by its table", scalars.time_operation(count, |s| group.power_g(&s))),
        ("power of h, by its table", scalars.time_operation(count, |s| group.power_h(&s))),
        (
            "sum and product modulo q",
            scalars.time_operation(count, |s| {
                group.multiply_scalars(&group.add_scalars(&s, &other), &s)
            }),
        ),
        ("inverse modulo q", scalars.time_operation(count, |s| group.invert_scalar(&s))),
        (
            "commitment",
            scalars.time_operation(count, |s| commit::commit_element(group, &h, [&s, &s])),
        ),
    ]
}

/// Measures firewalls whose coins are scalars of the class.
fn time_firewalls(group: &Ristretto, scalars: &Scalars, count: usize) -> Vec<(&'static str, f64)> {
    let h = group.h();
    let mut dice = SimRng::new(6, 0);
    let both = || Message::commitment(h, group.g());
    let coins = |coin: Scalar| GivenCoins::new([coin; 3]);
    vec![
        (
            "DH_FW, its coin",
            scalars.time_prepared(
                count,
                |coin| DhFirewall::with_coins(group.clone(), coins(coin)),
                |mut wall| wall.change_outgoing(Message::key(h), dice.rng()),
            ),
        ),
        (
            "DH_Comm_FW, its three coins",
            scalars.time_prepared(
                count,
                |coin| CommittingFirewall::with_coins(group.clone(), coins(coin)),
                |mut wall| wall.change_outgoing(both(), dice.rng()),
            ),
        ),
        (
            "the same, answering",
            scalars.time_prepared(
                count,
                |coin| AnsweringFirewall::with_coins(group.clone(), coins(coin)),
                |mut wall| wall.change_incoming(both(), dice.rng()),
            ),
        ),
    ]
}

fn make_secret(scalar: Scalar) -> CoinSecret {
    CoinSecret::decode(&scalar.to_bytes()).expect("a scalar")
}

fn time_coins(scalars: &Scalars, count: usize) -> Vec<(&'static str, f64)> {
    let mut rows = Vec::new();
    for (encoding, [check, point]) in [
        (CoinEncoding::Ristretto, ["coin check, ristretto255", "point Z, ristretto255"]),
        (CoinEncoding::X25519, ["coin check, X25519", "point Z, X25519"]),
    ] {
        let z = make_secret(Scalar::from(77_u8)).point(encoding);
        let checks =
            scalars.time_prepared(count, |s| make_rho(&s), |rho| rho.public_key(encoding, &z));
        let points = scalars.time_prepared(count, make_secret, |secret| secret.point(encoding));
        rows.extend([(check, checks), (point, points)]);
    }
    let their = PublicKey(make_pair(&Scalar::from(9_u8)).public_key(CoinEncoding::X25519));
    let agreed = scalars.time_prepared(count, |s| make_pair(&s), |pair| pair.agree_x25519(&their));
    rows.push(("X25519 of a coin key", agreed));
    rows
}

/// Returns the initiator of an exchange with given coins, so that its tags are the same each time.
fn open_exchange(group: &Ristretto, g2: &[u8], dice: &mut SimRng) -> (GkxOpened, Vec<u8>) {
    let (initiator, _) = begin_exchange(group, dice);
    initiator.open(group, g2).expect("G3")
}

fn identities() -> [StaticKey; 2] {
    [1, 2].map(|byte| {
        StaticKey::from_scalar::<PortableBackend>(Secret::init_with(|key| key.fill(byte)))
    })
}

fn begin_exchange(group: &Ristretto, dice: &mut SimRng) -> (GkxInitiator, Vec<u8>) {
    let ([own, peer], coins) = (identities(), &mut GivenCoins::new([7_u8, 8, 9].map(Scalar::from)));
    let peer = peer.public_key();
    GkxInitiator::begin::<PortableBackend>(group, &own, peer, coins, dice.rng()).expect("G1")
}

fn time_comparisons(group: &Ristretto, count: usize) -> Vec<(&'static str, f64)> {
    let secret = make_secret(Scalar::from(6_u8));
    let coin = make_rho(&Scalar::from(5_u8));
    let h = coin.commitment(&SLOT);
    let commitments = time_comparison(
        count,
        &wrong_copies(h, 0),
        |wrong| wrong,
        |wrong| secret.with_coin(&SLOT, &wrong, &coin).is_err(),
    );
    let (mut dice, [alice, bob]) = (SimRng::new(8, 0), identities());
    let (_, g1) = begin_exchange(group, &mut dice);
    let (responder, g2) = GkxResponder::answer(group, &g1, &mut Uniform, dice.rng()).expect("G2");
    let (_, g3) = open_exchange(group, &g2, &mut dice);
    let candidates =
        [GkxCandidate::new::<PortableBackend>(&bob, *alice.public_key()).expect("a candidate")];
    let g4 = responder.finish(group, &g3, bob.public_key(), &candidates).expect("accepted").frame;
    let g4: [u8; 18] = g4.try_into().expect("18 bytes");
    let tags = time_comparison(
        count / 4,
        &wrong_copies(g4, 2),
        |wrong| (open_exchange(group, &g2, &mut dice).0, wrong),
        |(opened, g4)| opened.finish(&g4).is_err(),
    );
    vec![("commitment to a coin", commitments), ("tag of G4", tags)]
}

fn main() -> ExitCode {
    let count = std::env::args().nth(1).map_or(20_000, |n| n.parse().expect("a number"));
    let group = Ristretto::new();
    let scalars = Scalars::new(&mut SimRng::new(3, 0));
    let right = [7; 32];
    let twins = [
        (
            "leaky twin of a power",
            scalars.time_operation(count / 10, |s| multiply_leaky(&group.h(), &s)),
        ),
        (
            "leaky twin of a comparison",
            time_comparison(
                count,
                &wrong_copies(right, 0),
                |it| it,
                |it| leaky_comparison(&it, &right),
            ),
        ),
    ];
    for (name, t) in twins {
        println!("{name:<28} t = {t:9.1}   must be beyond {LIMIT}");
    }
    let rows = [
        time_arithmetic(&group, &scalars, count),
        time_firewalls(&group, &scalars, count),
        time_coins(&scalars, count),
        time_comparisons(&group, count),
    ]
    .concat();
    for (name, t) in &rows {
        println!("{name:<28} t = {t:9.1}   must be below {LIMIT}");
    }
    let is_caught = twins.iter().all(|(_, t)| t.abs() > LIMIT);
    let holds = is_caught && rows.iter().all(|(_, t)| t.abs() < LIMIT);
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
