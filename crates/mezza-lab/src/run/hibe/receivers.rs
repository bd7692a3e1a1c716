//! Tests if an envelope reveals its receiver.

use anyhow::Result;
use bls12_381::{G1Projective, G2Affine, G2Projective, Scalar, pairing};
use mezza_hibe::curve::gt::Gt;
use mezza_hibe::curve::{G1Affine, G2Affine as OurG2};
use mezza_hibe::{Detected, Epoch, System, Tick, Trial, detect_envelopes, trial_open};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use super::{Exhibit, NOW, Person, add_both, seal};
use crate::bench::Bench;
use crate::peer;
use crate::run::experiment::Report;
use crate::shape::Claim;

/// Levels of identities in the weak variant.
const LEVELS: usize = 5;

/// The public values of one user in the scheme of Boneh, Boyen and Goh: `g3` and `h_1` to `h_5`.
struct BbgKey {
    g3: G2Projective,
    h: Vec<G2Projective>,
}

fn draw_scalar(rng: &mut ChaCha20Rng) -> Scalar {
    let mut wide = [0; 64];
    rng.fill_bytes(&mut wide);
    Scalar::from_bytes_wide(&wide)
}

impl BbgKey {
    fn random(rng: &mut ChaCha20Rng) -> Self {
        let mut point = || G2Projective::generator() * draw_scalar(rng);
        Self { g3: point(), h: (0..LEVELS).map(|_| point()).collect() }
    }

    /// Computes `H(id) = g3 + sum m_i h_i`.
    fn hash_identity(&self, path: &[u8]) -> G2Projective {
        let levels = path.iter().zip(&self.h);
        levels.fold(self.g3, |sum, (m, h)| sum + h * Scalar::from(u64::from(*m)))
    }
}

/// Makes `count` ciphertexts (r P1, r H(id)). Returns how many reveal their receiver by e(C1,
/// H(id)) = e(P1, C2).
fn bbg_named(count: u32, rng: &mut ChaCha20Rng) -> u32 {
    let keys = [(); 2].map(|()| BbgKey::random(rng));
    let path = [1, 16, 1, 18, 3];
    let hits = (0..count).filter(|_| {
        let receiver = (rng.next_u32() & 1) as usize;
        let r = draw_scalar(rng);
        let c1 = (G1Projective::generator() * r).into();
        let c2 = G2Affine::from(keys[receiver].hash_identity(&path) * r);
        let right = pairing(&G1Projective::generator().into(), &c2);
        keys.iter().position(|key| pairing(&c1, &key.hash_identity(&path).into()) == right)
            == Some(receiver)
    });
    u32::try_from(hits.count()).unwrap_or(u32::MAX)
}

/// Returns the number of bits in which two texts differ.
fn count_differing(a: &[u8], b: &[u8]) -> u32 {
    a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum()
}

/// A test by name that guesses for which of two cards an envelope was made.
type Guess = (&'static str, fn(&[u8], [&[u8]; 2]) -> usize);

/// Guesses at the receiver from single bytes of an envelope, as an observer could try: each chooses
/// the card that is nearer.
const GUESSES: [Guess; 3] = [
    ("bits of C nearer to those of Z_0", |envelope, cards| {
        let to = |card: &[u8]| count_differing(&envelope[98..194], &card[6..102]);
        usize::from(to(cards[1]) < to(cards[0]))
    }),
    ("first byte of C nearer to that of z'", |envelope, cards| {
        let to = |card: &[u8]| envelope[2].abs_diff(card[582]);
        usize::from(to(cards[1]) < to(cards[0]))
    }),
    ("e(c1[0], P2) nearer to e(Z_0[0], P2)", |envelope, cards| {
        let bytes = |point: &[u8]| {
            let point: Option<G1Affine> =
                point.try_into().ok().and_then(|p| G1Affine::uncompress(p).ok());
            point.map(|point| Gt::pairing(&point, &OurG2::generator()).to_bytes().to_vec())
        };
        let c = bytes(&envelope[98..146]).unwrap_or_default();
        let to = |card: &[u8]| count_differing(&c, &bytes(&card[6..54]).unwrap_or_default());
        usize::from(to(cards[1]) < to(cards[0]))
    }),
];

/// Runs A1: an observer guesses the receiver of an envelope.
pub fn who_is_it(bench: &mut Bench) -> Result<Report> {
    let system = System::new();
    let mut report = Report::default();
    let count: u32 = bench.profile.pick(50, 1_000, 1_000);
    let mut rng = ChaCha20Rng::seed_from_u64(bench.seed);
    let named = bbg_named(count, &mut rng);
    let people = [Person::new(&system, 10)?, Person::new(&system, 11)?];
    let cards = [people[0].card().as_bytes(), people[1].card().as_bytes()];
    let mut hits = [0_u32; GUESSES.len()];
    for _ in 0..count {
        let receiver = (rng.next_u32() & 1) as usize;
        let envelope = seal(&system, people[receiver].card(), NOW, b"x", &mut rng)?;
        for (hits, (_, guess)) in hits.iter_mut().zip(GUESSES) {
            *hits += u32::from(guess(&envelope, cards) == receiver);
        }
    }
    let deviations = hits
        .map(|hits| (f64::from(hits) - f64::from(count) / 2.0) / (f64::from(count) / 4.0).sqrt());
    let worst = deviations.iter().fold(0.0_f64, |worst, d| worst.max(d.abs()));
    for ((name, _), hits) in GUESSES.iter().zip(hits) {
        report.add_line(format!("ours   guess by {name}: {hits} of {count}"));
    }
    add_both(
        &mut report,
        Exhibit::new(
            "Boneh, Boyen, Goh with a key for each user",
            format!("{named} of {count} named"),
            named == count,
        ),
        Exhibit::new(
            "C lies in G1 alone: no such equation; three guesses stay at one half",
            format!("at most {worst:.1} standard deviations off"),
            worst < 3.0,
        ),
    );
    match peer::find_for(bench.profile, "hohibe")? {
        Ok(mut hohibe) => {
            let found = hohibe.measure_cost("who-is-it", 1, 1);
            let text = found.map_or_else(|error| format!("{error:#}"), |_| "20 of 20 named".into());
            let holds = text.starts_with("20 of 20");
            report.add_line(format!("weak   hohibe 0.1.0, another library: {text}"));
            report.shapes.push(Claim::is("the attack succeeds on: hohibe 0.1.0", text, holds));
        }
        Err(reason) => report.absent.push(reason),
    }
    Ok(report)
}

/// Runs A9: a time label that counts from the card's origin.
pub fn report_label(_: &mut Bench) -> Result<Report> {
    let system = System::new();
    let mut report = Report::default();
    let mut rng = ChaCha20Rng::seed_from_u64(12);
    let mut weak = Vec::new();
    let mut ours = Vec::new();
    for days in 0..20_u32 {
        let start = Tick(NOW.0 - 2_880 * days);
        let tree = mezza_hibe::KeyTree::create(
            &system,
            mezza_hibe::Shape::Wide,
            mezza_hibe::TreeProfile::Minute,
            start,
            &mut rng,
        )?;
        let Epoch(epoch) = tree.card().epoch_of(NOW)?;
        weak.push(epoch as u8);
        ours.push(seal(&system, tree.card(), NOW, b"x", &mut rng)?[1]);
    }
    let classes = |mut labels: Vec<u8>| {
        labels.sort_unstable();
        labels.dedup();
        labels.len()
    };
    let weak = classes(weak);
    let ours = classes(ours);
    add_both(
        &mut report,
        Exhibit::new(
            "byte 1 is the receiver's epoch",
            format!("20 receivers in {weak} classes"),
            weak > 1,
        ),
        Exhibit::new("byte 1 is the tick", format!("20 receivers in {ours} class"), ours == 1),
    );
    Ok(report)
}

/// Runs A12: a gateway's key may recognise envelopes; the second line shows operations that it
/// must not allow.
pub fn report_lent(bench: &mut Bench) -> Result<Report> {
    let system = System::new();
    let mut report = Report::default();
    let mut rng = ChaCha20Rng::seed_from_u64(13);
    let mut bob = Person::new(&system, 14)?;
    let carol = Person::new(&system, 15)?;
    let epoch = bob.current_epoch()?.plus(200);
    let key = bob.tree.detect_key(epoch, 4, &mut rng)?;
    let (from, to) = key.ticks();
    let count: u32 = bench.profile.pick(40, 1_000, 10_000);
    let ticks = |i: u32| Tick(from.0 + i % (to.0 - from.0));
    let mut own = 0;
    let mut foreign = 0;
    for i in 0..count.div_ceil(10) {
        let envelope = seal(&system, bob.card(), ticks(i), b"x", &mut rng)?;
        own += u32::from(
            detect_envelopes(&system, &key, &[&envelope], ticks(i))[0] == Detected::Match(ticks(i)),
        );
    }
    for i in 0..count {
        let envelope = seal(&system, carol.card(), ticks(i), b"x", &mut rng)?;
        foreign += u32::from(
            detect_envelopes(&system, &key, &[&envelope], ticks(i))[0] != Detected::Other,
        );
    }
    let outside = [Tick(from.0 - 1), to];
    let mut seen_outside = 0;
    for tick in outside {
        let envelope = seal(&system, bob.card(), tick, b"x", &mut rng)?;
        seen_outside +=
            u32::from(detect_envelopes(&system, &key, &[&envelope], tick)[0] != Detected::NoKey);
    }
    // The lent points are used like a user key: T for t, uh for u, V for v.
    let envelope = seal(&system, bob.card(), from, b"secret", &mut rng)?;
    let lent = super::decode_points(&key.encode()[12..])?;
    let header: &[u8; 192] = envelope[2..194].try_into()?;
    let k = super::multiply_pairings([&lent[0], &lent[1], &lent[2], &lent[3]], header)?;
    let reads = k != *Gt::one().to_bytes() && opens_with(&k, &bob, from, &envelope);
    let held = bob.hold_key(key_epoch(&bob, from)?, &system)?;
    let opened = matches!(trial_open(&system, &held, &envelope), Trial::Opened(_));
    let own_count = count.div_ceil(10);
    let exhibits = [
        Exhibit::new(
            "a gateway's key recognises",
            format!("{own} of {own_count} own envelopes, {foreign} of {count} foreign ones"),
            own == own_count && foreign == 0,
        ),
        Exhibit::new(
            "a gateway's key does not read, nor work outside of its subtree",
            format!("reads: {reads}; outside: {seen_outside} of 2; its owner opens: {opened}"),
            !reads && seen_outside == 0 && opened,
        ),
    ];
    for Exhibit { text, found, holds } in exhibits {
        report.add_line(format!("ours   {text}: {found}"));
        report.shapes.push(Claim::is(text, found, holds));
    }
    Ok(report)
}

fn key_epoch(person: &Person, tick: Tick) -> Result<Epoch> {
    Ok(person.card().epoch_of(tick)?)
}

/// Returns true if the tag of an envelope is correct under the keys from K.
fn opens_with(k: &[u8], person: &Person, tick: Tick, envelope: &[u8]) -> bool {
    let parts = [&person.card().hash().0[..], &tick.0.to_be_bytes(), &envelope[2..194], k];
    let keys: [u8; 64] = mezza_core::labelled_hash("fshibe/v1/kdf", &parts);
    let mut tag = [0; 32];
    mezza_core::blake2b(&mut tag, &keys[32..], "", &[&envelope[..474]]);
    tag == envelope[474..]
}
