//! Exhibits of FoSAM's cryptography: attacks that succeed against a weak variant, each compared
//! with the same attack against ours. `run hibe` runs all of them.

mod envelopes;
mod receivers;
mod tree;

use anyhow::{Context as _, Result};
use bls12_381::G1Affine as Zk;
use mezza_hibe::bkp::{MasterSecret, compute_base, compute_header};
use mezza_hibe::curve::{Fr, G2, G2Affine};
use mezza_hibe::pairing::{HEADER_BYTES, PairingEngine as _, PairingKernel};
use mezza_hibe::shape::Path;
use mezza_hibe::{
    Bucket, CardBlock, EnvelopeKey, Epoch, HeldKeys, KeyTree, Shape, System, Tick, TreeProfile,
};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use super::experiment::{Experiment, Report};
use crate::shape::Claim;

/// All exhibits.
pub const ALL: &[Experiment] = &[
    Experiment::calculated(
        "hibe-who-is-it",
        "a public test names the receiver",
        [2, 15, 30],
        receivers::who_is_it,
    )
    .with_peers(&["hohibe"]),
    Experiment::calculated(
        "hibe-siblings",
        "two keys give back their parent's",
        [1; 3],
        tree::report_siblings,
    ),
    Experiment::calculated(
        "hibe-shared-t",
        "two keys recognise their parent's envelopes",
        [1; 3],
        tree::shared_t,
    ),
    Experiment::calculated(
        "hibe-sleeper",
        "a device is seized after a pause",
        [2, 3, 3],
        tree::report_sleeper,
    ),
    Experiment::calculated(
        "hibe-flip",
        "bits of a ciphertext are changed",
        [1, 2, 4],
        envelopes::report_flip,
    ),
    Experiment::calculated(
        "hibe-salamander",
        "one body opens as two texts",
        [1; 3],
        envelopes::report_salamander,
    ),
    Experiment::calculated(
        "hibe-infinity",
        "a header of infinite points",
        [1; 3],
        envelopes::report_infinity,
    ),
    Experiment::calculated(
        "hibe-second-form",
        "the same text in other bytes",
        [1; 3],
        envelopes::second_form,
    ),
    Experiment::calculated(
        "hibe-label",
        "a label sorts receivers",
        [1; 3],
        receivers::report_label,
    ),
    Experiment::calculated(
        "hibe-clocks",
        "clocks that freeze keys or burn them",
        [1; 3],
        tree::report_clocks,
    ),
    Experiment::calculated(
        "hibe-forward",
        "a message is passed on as if meant for another",
        [1; 3],
        envelopes::report_forward,
    ),
    Experiment::calculated(
        "hibe-lent",
        "what a gateway's key tells",
        [2, 15, 60],
        receivers::report_lent,
    ),
];

/// The tick at which all exhibits happen.
const NOW: Tick = Tick(59_500_803);

/// A user with a key tree.
struct Person {
    tree: KeyTree,
    rng: ChaCha20Rng,
}

impl Person {
    fn new(system: &System, seed: u64) -> Result<Self> {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let tree = KeyTree::create(system, Shape::Wide, TreeProfile::Minute, NOW, &mut rng)?;
        Ok(Self { tree, rng })
    }

    fn card(&self) -> &CardBlock {
        self.tree.card()
    }

    fn current_epoch(&self) -> Result<Epoch> {
        Ok(self.card().epoch_of(NOW)?)
    }

    fn hold_key(&mut self, epoch: Epoch, system: &System) -> Result<HeldKeys> {
        let mut held = HeldKeys::new();
        held.insert(self.tree.open_key(system, epoch, &mut self.rng)?);
        Ok(held)
    }
}

/// Makes an envelope for a card.
fn seal(
    system: &System,
    card: &CardBlock,
    tick: Tick,
    text: &[u8],
    rng: &mut ChaCha20Rng,
) -> Result<Vec<u8>> {
    let key = EnvelopeKey::new(system, &card.seal_key(tick)?, tick, rng)?;
    Ok(key.seal(text, Bucket::SMALLEST, tick)?.into_bytes())
}

/// Computes the header C of an identity with given coins, and the key K.
fn encapsulate_with(
    system: &System,
    master: &MasterSecret,
    path: &Path,
    r: &Fr,
) -> ([u8; HEADER_BYTES], Vec<u8>) {
    let parameters = master.derive_parameters(system);
    let points = compute_header(system, &parameters.identity_points(path), r);
    let bytes: Vec<u8> = points.iter().flat_map(|point| point.to_affine().compress()).collect();
    let k = compute_base(&parameters).pow(r).to_bytes();
    (core::array::from_fn(|i| bytes[i]), k.to_vec())
}

/// Decodes the points of a stored key, 96 bytes each.
fn decode_points(stored: &[u8]) -> Result<Vec<G2>> {
    let (points, _) = stored.as_chunks::<96>();
    points.iter().map(|bytes| Ok(G2Affine::uncompress(bytes)?.to_point())).collect()
}

/// Computes e(c0\[0\], v) e(c0\[1\], u) e(c1\[0\], -t0) e(c1\[1\], -t1) for a key t0 t1 u v.
fn multiply_pairings(key: [&G2; 4], c: &[u8; HEADER_BYTES]) -> Result<Vec<u8>> {
    let [t0, t1, u, v] = key;
    let q = [v.to_affine(), u.to_affine(), t0.neg().to_affine(), t1.neg().to_affine()];
    let prepared = PairingKernel::Lines.prepare_points(&q);
    let products = PairingKernel::Lines.multi_pair(&prepared, &[c]);
    Ok(products.into_iter().next().context("one product")??.to_vec())
}

/// Adds (0, 2) to a point of G1. That point has order 3 and lies on the curve outside the subgroup.
/// zkcrypto adds it, since blst refuses a point with x = 0.
fn plus_order_3(bytes: &[u8; 48]) -> Result<[u8; 48]> {
    let mut order_3 = [0; 48];
    order_3[0] = 0x80;
    let point = |bytes| Option::<Zk>::from(Zk::from_compressed_unchecked(bytes));
    let a = point(bytes).context("a point")?;
    let b = point(&order_3).context("(0, 2)")?;
    Ok(Zk::from(bls12_381::G1Projective::from(a) + b).to_compressed())
}

/// One column of an exhibit.
struct Exhibit<'a> {
    /// The variant that is attacked.
    text: &'a str,
    /// The result of the attack.
    found: String,
    /// True if the result is the expected one.
    holds: bool,
}

impl<'a> Exhibit<'a> {
    const fn new(text: &'a str, found: String, holds: bool) -> Self {
        Self { text, found, holds }
    }
}

/// Adds both columns of an exhibit: the attack must succeed against the weak variant and fail
/// against ours.
fn add_both(report: &mut Report, weak: Exhibit<'_>, ours: Exhibit<'_>) {
    report.add_line(format!("weak   {}: {}", weak.text, weak.found));
    report.add_line(format!("ours   {}: {}", ours.text, ours.found));
    report.shapes.push(Claim::is(
        format!("the attack succeeds on: {}", weak.text),
        weak.found,
        weak.holds,
    ));
    report.shapes.push(Claim::is(
        format!("the attack fails on ours: {}", ours.text),
        ours.found,
        ours.holds,
    ));
}
