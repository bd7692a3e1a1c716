//! Keys that would reveal other keys: siblings, clones, clocks.

use anyhow::{Context as _, Result};
use mezza_hibe::bkp::{DerivedKeys, MasterSecret, NodeKey};
use mezza_hibe::curve::gt::Gt;
use mezza_hibe::curve::{Fr, G2};
use mezza_hibe::floor::{ClockTrust, JUMP_MS_MAX};
use mezza_hibe::shape::Path;
use mezza_hibe::{
    BlockPolicy, CardBlock, Epoch, FloorRule, HeldKeys, KeyTree, System, TreeProfile, Trial,
    trial_open,
};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use super::{Exhibit, Person, add_both, decode_points, encapsulate_with, multiply_pairings, seal};
use crate::bench::Bench;
use crate::run::experiment::Report;
use crate::shape::Claim;

/// Length of the pause in epochs.
const PAUSE: u32 = 100;
const HOUR_MS: u64 = 3_600_000;

/// A node, its first two children as ours derives them, and their master key.
struct Family {
    system: System,
    master: MasterSecret,
    parent: NodeKey,
    children: [NodeKey; 2],
}

impl Family {
    fn new() -> Result<Self> {
        let system = System::new();
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let master = MasterSecret::random(5, &mut rng);
        let parent = master.user_key(&system, &Path::root(), &mut rng);
        let mut child =
            |m| match parent.derive_keys(&parent.descend_to(&parent.empty_sums(), m), &mut rng) {
                DerivedKeys::Node(child) => Some(*child),
                DerivedKeys::User(_) => None,
            };
        let children = [child(1).context("a node")?, child(2).context("a node")?];
        Ok(Self { system, master, parent, children })
    }

    /// Makes an envelope's header for the parent's epoch, and its K.
    fn make_target(&self) -> ([u8; 192], Vec<u8>) {
        encapsulate_with(&self.system, &self.master, &Path::root(), &Fr::from_small(9))
    }
}

/// Computes 2 a - b.
fn extrapolate_point(a: &G2, b: &G2) -> G2 {
    a.small_mul(2).add(&b.neg())
}

/// Computes K with the points `at` and `at` + 1 of a child unchanged, and the next two points
/// extrapolated to the parent.
fn parent_of(children: [&[G2]; 2], at: usize, c: &[u8; 192]) -> Result<Vec<u8>> {
    let [first, second] = children;
    let u = extrapolate_point(&first[at + 2], &second[at + 2]);
    let v = extrapolate_point(&first[at + 3], &second[at + 3]);
    multiply_pairings([&first[at], &first[at + 1], &u, &v], c)
}

/// Derives a child without fresh factors: t and T equal the parent's.
fn weak_child(parent: &[G2], m: u8) -> Vec<G2> {
    let plus = |at: usize, level: usize| parent[at].add(&parent[level].small_mul(m));
    let same = |at: usize| parent[at].small_mul(1);
    // The stored order is t0 t1 u v T0 T1 uh V, then d D e E of the first level.
    vec![same(0), same(1), plus(2, 8), plus(3, 10), same(4), same(5), plus(6, 9), plus(7, 11)]
}

/// Runs A2: `u = 2 u_1 - u_2` is the parent's u if both children have its t.
pub fn report_siblings(_: &mut Bench) -> Result<Report> {
    report_reconstruction(0, "delegation without fresh s'", "two derived siblings")
}

/// Runs A3: `uh = 2 uh_1 - uh_2` recognises the parent's envelopes if both children have its T.
pub fn shared_t(_: &mut Bench) -> Result<Report> {
    report_reconstruction(4, "delegation without fresh S'", "two derived siblings")
}

/// Reconstructs the parent's user key (`at` 0) or detect key (`at` 4) from two children.
fn report_reconstruction(at: usize, weak: &str, ours: &str) -> Result<Report> {
    let family = Family::new()?;
    let mut report = Report::default();
    let (c, k) = family.make_target();
    let wanted = if at == 0 { k } else { Gt::one().to_bytes().to_vec() };
    let parent = decode_points(&family.parent.encode())?;
    let weak_children = [1, 2].map(|m| weak_child(&parent, m));
    let weak_found = parent_of([&weak_children[0], &weak_children[1]], at, &c)? == wanted;
    let derived = [
        decode_points(&family.children[0].encode())?,
        decode_points(&family.children[1].encode())?,
    ];
    let ours_found = parent_of([&derived[0], &derived[1]], at, &c)? == wanted;
    let verb = if at == 0 { "opens" } else { "recognises" };
    let told =
        |found: bool| format!("{verb} the parent's epoch: {}", if found { "yes" } else { "no" });
    add_both(
        &mut report,
        Exhibit::new(weak, told(weak_found), weak_found),
        Exhibit::new(ours, told(ours_found), !ours_found),
    );
    Ok(report)
}

/// Runs A4: the whole key is cloned before it moves past a pause.
pub fn report_sleeper(_: &mut Bench) -> Result<Report> {
    let system = System::new();
    let mut report = Report::default();
    let mut bob = Person::new(&system, 2)?;
    let start = bob.current_epoch()?;
    let copy = bob.tree.export_delta();
    let records = copy.put.into_iter().collect();
    let card = CardBlock::decode(bob.card().as_bytes(), BlockPolicy::Product)?;
    let clone = KeyTree::import(&card, &copy.keyring, &records, 0)?;
    let now = start.plus(PAUSE);
    bob.tree.erase_below(now.minus(1), &mut bob.rng)?;
    let read = |tree: &KeyTree| -> Result<u32> {
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        let mut count = 0;
        for epoch in (start.0..now.0).map(Epoch) {
            let tick = card.first_tick(epoch);
            let envelope = seal(&system, &card, tick, b"of the pause", &mut rng)?;
            let Ok(key) = tree.open_key(&system, epoch, &mut rng) else { continue };
            let mut held = HeldKeys::new();
            held.insert(key);
            count += u32::from(matches!(trial_open(&system, &held, &envelope), Trial::Opened(_)));
        }
        Ok(count)
    };
    let weak = read(&clone)?;
    let ours = read(&bob.tree)?;
    add_both(
        &mut report,
        Exhibit::new(
            "the key before is cloned whole",
            format!("{weak} of {PAUSE} epochs read"),
            weak == PAUSE,
        ),
        Exhibit::new(
            "the user key of one epoch is kept",
            format!("{ours} of {PAUSE} epochs read"),
            ours == 1,
        ),
    );
    Ok(report)
}

/// Runs A10: a stopped clock and a jumping clock, with a key stack that follows the clock and with
/// ours.
pub fn report_clocks(_: &mut Bench) -> Result<Report> {
    let mut report = Report::default();
    let profile = TreeProfile::Minute;
    let start = Epoch(1_000);
    let day = 24 * HOUR_MS;
    let epochs = |ms: u64| u32::try_from(ms / profile.epoch_ms());
    let rule = || FloorRule::new(profile.epoch_ms(), start, ClockTrust::GOOD, 0);

    // The weak variant is the paper's algorithm: the key moves to the clock's epoch.
    let follows = |clock: Epoch| clock.minus(1).max(start);

    // Freeze: the clock stops for a day.
    let erased = |floor: Epoch| floor.0 - start.0;
    let (frozen, _) = rule().update_floor(Some(start), day);
    let least = epochs(day - ClockTrust::GOOD.slack_ms)?;
    let told = |floor| format!("{} epochs of a day erased", erased(floor));
    add_both(
        &mut report,
        Exhibit::new(
            "freeze: the stack follows the clock, as in the paper",
            told(follows(start)),
            erased(follows(start)) == 0,
        ),
        Exhibit::new("freeze: boot time counts too", told(frozen), erased(frozen) >= least),
    );

    // Burn: the clock jumps ten years ahead at once.
    let jump = start.plus(10 * 365 * epochs(day)?);
    let (burnt, held) = rule().update_floor(Some(jump), 0);
    let told = |floor| format!("{} epochs erased at once", erased(floor));
    add_both(
        &mut report,
        Exhibit::new(
            "burn: the stack follows the clock, as in the paper",
            told(follows(jump)),
            erased(follows(jump)) > epochs(day)?,
        ),
        Exhibit::new(
            "burn: the user is asked",
            format!("{}, {}", told(burnt), if held.is_some() { "asked" } else { "not asked" }),
            burnt == start && held.is_some(),
        ),
    );

    // Liars advance the clock minute by minute, for an hour.
    let mut slow = rule();
    let mut floor = start;
    for minute in 0..60 {
        let asked = Epoch(start.0 + 60 * (minute + 1));
        floor = slow.update_floor(Some(asked), u64::from(minute) * 60_000).0;
    }
    let most = epochs(HOUR_MS + HOUR_MS / 2)? + epochs(JUMP_MS_MAX)? + 2;
    let burnt = floor.0 - start.0;
    report.add_line(format!(
        "ours   burn by steps: {burnt} epochs erased in an hour, at most {most}"
    ));
    let text = "liars make ours erase at most 1.5 times the time that passes, and a day: epochs";
    report.shapes.push(Claim::is(text, format!("{burnt} of {most}"), burnt <= most));
    Ok(report)
}
