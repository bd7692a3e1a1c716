//! The variants of the thesis as timed operations.
//!
//! ```text
//! fw:GROUP-MODE:LISTING     GROUP = modp ec    MODE = uniform (listings, every base variable)
//!                                                     fast    (the crate's variants, tables for g and h)
//! fw:gkx-guard  fw:coin-check  fw:units-..      a guard's work, and the operations that it is made of
//! ```

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::OnceLock;

use anyhow::{Context as _, Result, bail};
use curve25519_dalek::constants::RISTRETTO_BASEPOINT_TABLE;
use mezza_core::{PortableBackend, Secret, StaticKey};
use mezza_guard::coin::{CoinEncoding, CoinKey, CoinPurpose, CoinSecret, SlotIndex, SlotName};
use mezza_guard::coins::Uniform;
use mezza_guard::gkx::{GkxGuard, GkxInitiator, GkxResponder};
use mezza_guard::keys::GuardClientId;
use mezza_guard::{Group, Ristretto};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use crate::asa::session::run_handshake;
use crate::bench::Bench;
use crate::clock::{BenchRound, cost_ns, deciding_value};
use crate::modp::{Modp, Profile};
use crate::raw::RawFigure;
use crate::thesis::listing::{DrawKey, Listing};
use crate::thesis::uniform::UniformGroup;
use crate::variant::{self, Variant};
use mezza_lab_measuring::rate::Call;

/// The listings by name.
pub const LISTINGS: [(&str, Listing); 11] = [
    ("dh", Listing::Dh),
    ("dh-fw", Listing::DhFirewall(1)),
    ("dh-fw2", Listing::DhFirewall(2)),
    ("comm", Listing::DhComm),
    ("comm-basic", Listing::CommBasic),
    ("comm-full", Listing::CommFull),
    ("comm-checked", Listing::CommChecked),
    ("eg", Listing::Eg),
    ("eg-rerand", Listing::EgRerand),
    ("eg-maul", Listing::EgMaul),
    ("eg-remaul", Listing::EgReMaul),
];

fn seeded_rng() -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(9)
}

/// Returns a shared group, which is made once: its tables take longer than a call.
fn shared_modp(fast: bool) -> Modp {
    static GROUPS: OnceLock<[Modp; 2]> = OnceLock::new();
    let groups = GROUPS.get_or_init(|| [false, true].map(|fast| Modp::new(Profile::Safe, fast)));
    groups[usize::from(fast)].clone()
}

fn shared_ristretto() -> Ristretto {
    static GROUP: OnceLock<Ristretto> = OnceLock::new();
    GROUP.get_or_init(Ristretto::new).clone()
}

/// Prepares a batch of calls of an operation.
///
/// # Errors
/// An unknown name.
pub fn prepare_call(op: &str) -> Result<Call> {
    if let Some(unit) = op.strip_prefix("units-") {
        return prepare_units(unit);
    }
    match op {
        "gkx-guard" => return Ok(gkx_guard()),
        "coin-check" => return Ok(coin_check()),
        _ => {}
    }
    let (place, name) = op.split_once(':').context("GROUP-MODE:LISTING")?;
    let short: DrawKey<Modp> = |group, rng| group.draw_short(rng);
    match place {
        "modp-short" => {
            prepare_listing(name, UniformGroup::new(shared_modp(false)), |group, rng| {
                group.inner().draw_short(rng)
            })
        }
        "modp-uniform" => {
            prepare_listing(name, UniformGroup::new(shared_modp(false)), Group::draw_nonzero)
        }
        "modp-fast-short" => prepare_listing(name, shared_modp(true), short),
        "modp-fast" => prepare_fast(name, shared_modp(true)),
        "ec-uniform" => {
            prepare_listing(name, UniformGroup::new(shared_ristretto()), Group::draw_nonzero)
        }
        "ec-fast" => prepare_fast(name, shared_ristretto()),
        _ => bail!("there is no group and mode {place}"),
    }
}

fn prepare_listing<G: Group + 'static>(name: &str, group: G, key: DrawKey<G>) -> Result<Call> {
    let found = LISTINGS.iter().find(|(known, _)| *known == name);
    let (_, listing) = *found.with_context(|| format!("there is no listing {name}"))?;
    let mut rng = seeded_rng();
    Ok(Box::new(move |_| assert!(listing.run_once(&group, key, &mut rng), "the ends agree")))
}

/// Prepares the crate's own variants: h^s once, the opening by an inversion, every element checked,
/// GUARD-7.
fn prepare_fast<G: Group + 'static>(name: &str, group: G) -> Result<Call> {
    let (variant, wall) = match name {
        "dh" => (Variant::Dh, "none"),
        "dh-fw" => (Variant::Dh, "fw"),
        "comm" => (Variant::DhComm, "none"),
        "comm-full" => (Variant::DhComm, "full"),
        "eg" => (Variant::Eg, "none"),
        "eg-rerand" => (Variant::Eg, "rerand"),
        "eg-remaul" => (Variant::Eg, "remaul"),
        _ => bail!("the crate has no {name}"),
    };
    let mut rng = seeded_rng();
    Ok(Box::new(move |_| {
        let wall = variant::make_firewall(variant, wall, &group);
        let seen =
            wall.and_then(|wall| run_handshake(&group, variant, wall, &mut Uniform, &mut rng));
        assert!(seen.is_ok(), "the ends agree");
    }))
}

/// Prepares G1, G2 and G3 through the guard of the dialling end, with decoding and encoding.
fn gkx_guard() -> Call {
    let group = shared_ristretto();
    let mut rng = seeded_rng();
    let key = |byte| StaticKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(byte)));
    let alice = key(1);
    let bob = key(2);
    // A guard draws its own coins, so frames can be prepared only up to G1. The cost of G2 and G3
    // does not depend on their contents if their sizes are right.
    Box::new(move |_| {
        let coins = &mut Uniform;
        let mut guard = GkxGuard::for_dialling();
        let begun = GkxInitiator::begin::<PortableBackend>(
            &group,
            &alice,
            bob.public_key(),
            coins,
            &mut rng,
        );
        let Ok((initiator, g1)) = begun else { return };
        let Ok(g1) = guard.change_outgoing(&group, &g1, coins, &mut rng) else { return };
        let Ok((_, g2)) = GkxResponder::answer(&group, &g1, coins, &mut rng) else { return };
        let Ok(g2) = guard.change_incoming(&group, &g2, coins, &mut rng) else { return };
        let Ok((_, g3)) = initiator.open(&group, &g2) else { return };
        assert!(guard.change_outgoing(&group, &g3, coins, &mut rng).is_ok(), "the opening fits");
    })
}

/// Prepares the check of a coin: rho, and the key that must be in the frame.
fn coin_check() -> Call {
    let key = CoinKey::from_secret(Secret::init_with(|key| key.fill(3)));
    let z = CoinSecret::random(&mut seeded_rng()).point(CoinEncoding::Ristretto);
    let name =
        SlotName { client: GuardClientId([1; 16]), purpose: CoinPurpose::LinkDialling, dest: 1 };
    let rho = key.derive_rho(&SlotIndex { name, index: 0 });
    Box::new(move |_| {
        let _ = black_box(rho.public_key(CoinEncoding::Ristretto, black_box(&z)));
    })
}

/// Prepares the basic operations that the variants consist of.
fn prepare_units(unit: &str) -> Result<Call> {
    let group = shared_ristretto();
    let mut rng = seeded_rng();
    let scalar = group.draw_scalar(&mut rng);
    let point = group.power_h(&group.draw_scalar(&mut rng));
    let bytes = group.encode(&point);
    Ok(match unit {
        "variable" => Box::new(move |_| {
            black_box(group.power(black_box(&point), black_box(&scalar)));
        }),
        "fixed" => Box::new(move |_| {
            black_box(RISTRETTO_BASEPOINT_TABLE * black_box(&scalar));
        }),
        "decode" => Box::new(move |_| {
            let _ = black_box(group.decode(black_box(&bytes)));
        }),
        "encode" => Box::new(move |_| {
            black_box(group.encode(black_box(&point)));
        }),
        // The ends of GKX without a guard, for comparison with the guard's row.
        "gkx-ends" => {
            let key = |byte| {
                StaticKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(byte)))
            };
            let alice = key(1);
            let bob = key(2);
            Box::new(move |_| {
                let coins = &mut Uniform;
                let peer = bob.public_key();
                let begun =
                    GkxInitiator::begin::<PortableBackend>(&group, &alice, peer, coins, &mut rng);
                let Ok((initiator, g1)) = begun else { return };
                let Ok((_, g2)) = GkxResponder::answer(&group, &g1, coins, &mut rng) else {
                    return;
                };
                assert!(initiator.open(&group, &g2).is_ok(), "G2 is an element");
            })
        }
        _ => bail!("there is no unit {unit}"),
    })
}

/// The costs of operations by name, ns.
pub struct Costs(BTreeMap<&'static str, f64>);

impl Costs {
    /// Measures all operations in turn, in several rounds: thread CPU time, medians over the
    /// undisturbed rounds.
    ///
    /// # Errors
    /// An unknown operation, or a failed clock.
    pub fn measure(bench: &mut Bench, ops: &[&'static str]) -> Result<Self> {
        let mut calls = ops.iter().map(|op| prepare_call(op)).collect::<Result<Vec<Call>>>()?;
        let mut rounds = Vec::new();
        for round in 0..bench.profile.pick(1, 7, 25) {
            let mut work = || -> Result<Vec<f64>> {
                calls
                    .iter_mut()
                    .zip(ops)
                    .map(|(call, op)| measure_cost(call, count_repeats(op), round))
                    .collect()
            };
            rounds.extend(bench.watch.rounds_or_give_up(&mut work)?);
        }
        let mut costs = BTreeMap::new();
        for (at, op) in ops.iter().enumerate() {
            let of = |round: &BenchRound<Vec<f64>>| BenchRound {
                value: round.value[at],
                busy: round.busy,
            };
            let of_op: Vec<BenchRound<f64>> = rounds.iter().map(of).collect();
            let ns = deciding_value(&of_op);
            bench.note_figure(&RawFigure::single("ours", op, "thread_cpu", "ns", ns))?;
            costs.insert(*op, ns);
        }
        Ok(Self(costs))
    }

    /// Returns the cost of an operation, ms.
    pub fn cost_ms(&self, op: &str) -> f64 {
        self.0.get(op).map_or(f64::NAN, |ns| ns / 1e6)
    }

    /// Returns the time that an operation adds to another, percent.
    pub fn overhead_percent(&self, base: &str, with: &str) -> f64 {
        100.0 * (self.cost_ms(with) / self.cost_ms(base) - 1.0)
    }
}

/// Returns the calls per sample: powers modulo p take milliseconds, other operations microseconds.
fn count_repeats(op: &str) -> usize {
    if op.starts_with("modp") { 1 } else { 40 }
}

fn measure_cost(call: &mut Call, repeats: usize, round: usize) -> Result<f64> {
    let ((), ns) = cost_ns(|| (0..repeats).for_each(|n| call(round * repeats + n)))?;
    Ok(ns / f64::from(u32::try_from(repeats).unwrap_or(u32::MAX)))
}
