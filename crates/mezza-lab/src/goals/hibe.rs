//! The goals of envelopes and their key tree: rows H1 to H7. Every ratio is of thread CPU time from
//! one run, all programs interleaved. Our figures include a tag and a second encapsulation; both
//! peers do neither.

use anyhow::Result;
use mezza_hibe::curve::TRIAL_FP_MULTIPLICATIONS;
use mezza_hibe::wire::card::PUBLIC_KEY_BYTES;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use super::measurement::Measurement;
use crate::bench::{Bench, BenchCase, Comparison, Series};
use crate::clock::{cost_ns, median};
use crate::limit::Limit;
use crate::ours::fosam::{self, KeyStack};
use crate::ours::hibe::{self, FP_CALL, prepare_forward};
use crate::peer::{self, PeerProcess};
use crate::row::Row;

/// The peer programs of these rows.
pub const PEERS: &[&str] = &["hohibe"];

/// All measurements of this part.
pub const ALL: &[Measurement] = &[
    Measurement::new(
        &[&make_limits(SPEEDS), &[MULTIPLICATIONS, BOUNDARY, PUBLIC_KEY, IMPORT], &BESIDE],
        "peer: `--fetch` (cargo)",
        [5, 60, 130],
        measure_operations,
    ),
    Measurement::new(&[&[FORWARD, DEAREST]], "nothing", [10, 40, 60], measure_ways),
];

/// Bytes of a payload.
const TEXT: usize = 1_024;
/// Steps whose cost is measured, in epochs: a day, a month, and the longest step for which the
/// paper's profile is measured.
const WAYS: [u32; 3] = [2_880, 86_400, 5_900_000];
/// The epoch whose key takes most derivations from the beginning of the tree.
const DEAREST_WAY: u32 = 5;

/// An implementation, and its name for the operation.
type Side = (&'static str, &'static str);

/// A goal against another implementation.
#[derive(Clone, Copy)]
struct Goal {
    /// The limit on the speedup.
    limit: Limit,
    ours: Side,
    theirs: Side,
}

const SPEEDS: [Goal; 6] = [
    Goal {
        limit: faster_limit("H1", "keygen, one shot / hohibe, speed", 2.4),
        ours: ("hibe", "keygen"),
        theirs: ("hohibe", "keygen"),
    },
    Goal {
        limit: faster_limit("H1", "keygen, table of P2 at hand / hohibe, speed", 3.8),
        ours: ("hibe", "keygen-comb"),
        theirs: ("hohibe", "keygen"),
    },
    Goal {
        limit: faster_limit("H2", "encrypt 1 KiB, real epoch / hohibe, speed", 15.0),
        ours: ("hibe", "seal"),
        theirs: ("hohibe", "seal"),
    },
    Goal {
        limit: faster_limit("H2", "encrypt 1 KiB, real epoch / paper profile, speed", 30.0),
        ours: ("hibe", "seal"),
        theirs: ("fosam", "encrypt"),
    },
    Goal {
        limit: faster_limit("H3", "trial opening / hohibe, speed", 3.0),
        ours: ("hibe", "trial"),
        theirs: ("hohibe", "open"),
    },
    Goal {
        limit: faster_limit("H3", "trial opening / paper profile, speed", 4.0),
        ours: ("hibe", "trial"),
        theirs: ("fosam", "decrypt"),
    },
];
const MULTIPLICATIONS: Limit =
    Limit::at_most("H3", "trial opening / its multiplications in Fp", 1.25, "x").stretching(1.15);
const BOUNDARY: Limit = Limit::at_most("H4", "ratchet on the path", 5.0, "us");
const PUBLIC_KEY: Limit = Limit::at_most("H6", "public key", 624.0, "B");
const IMPORT: Limit = Limit::at_most("H7", "import of a full stack", 10.0, "ms");
const BESIDE: [Limit; 2] = [
    Limit::none("H1", "keygen with the tables of its process", "ms"),
    Limit::none("H4", "ratchet, mean of an epoch / paper profile", "x"),
];
const FORWARD: Limit = faster_limit("H5", "way forward, the least of three / paper profile", 20.0);
const DEAREST: Limit = Limit::none("H5", "the dearest way forward", "ms");

const fn faster_limit(id: &'static str, goal: &'static str, times: f64) -> Limit {
    Limit::at_least(id, goal, times, "x")
}

const fn make_limits<const N: usize>(goals: [Goal; N]) -> [Limit; N] {
    let mut limits = [BOUNDARY; N];
    let mut at = 0;
    while at < N {
        limits[at] = goals[at].limit;
        at += 1;
    }
    limits
}

/// The operations of this program, and the calls in a batch.
const OURS: [(Side, usize); 14] = [
    (("hibe", "system"), 1),
    (("hibe", "keygen"), 1),
    (("hibe", "keygen-comb"), 2),
    (("hibe", "seal"), 8),
    (("hibe", "seal-warm"), 8),
    (("hibe", "trial"), 4),
    (("hibe", "open"), 4),
    (("hibe", "fp"), 40),
    (("hibe", "boundary"), 50),
    (("hibe", "import"), 4),
    (("fosam", "encrypt"), 1),
    (("fosam", "decrypt"), 1),
    (("fosam", "ratchet"), 1),
    (("hibe", "ratchet"), 1),
];

struct Figures(Comparison<Side>);

impl Figures {
    fn find_series(&self, side: Side) -> Result<&Series> {
        self.0.find_series(&side)
    }

    fn find_cost(&self, side: Side) -> Result<f64> {
        Ok(self.find_series(side)?.deciding_cost())
    }

    fn make_row(&self, goal: Goal) -> Result<Row> {
        let Goal { limit, ours, theirs } = goal;
        let ratio = self.find_series(theirs)?.ratio_to(self.find_series(ours)?);
        let a = self.find_cost(ours)? / 1e6;
        let b = self.find_cost(theirs)? / 1e6;
        let beside = format!(
            "{} {} {a:.3} ms by {} {b:.3} ms: {ratio}; {}",
            ours.0,
            ours.1,
            theirs.0,
            self.0.describe_disturbed()
        );
        Ok(limit.make_row(ratio.value).with_detail(beside))
    }
}

/// Measures H1 to H4, H6 and H7.
fn measure_operations(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut peers = vec![PeerProcess::start_ours()?];
    let case = |(who, op): Side, peer: usize, calls: usize| {
        let asked = if peer == 0 { format!("{who}:{op}") } else { op.to_owned() };
        let shown = if peer == 0 { format!("ours:{who}") } else { format!("peer:{who}") };
        ((who, op), BenchCase { who: shown, peer, op: asked, size: TEXT, calls })
    };
    let mut cases: Vec<_> = OURS.into_iter().map(|(side, calls)| case(side, 0, calls)).collect();
    let absent = match peer::find_for(bench.profile, PEERS[0])? {
        Ok(found) => {
            peers.push(found);
            cases.extend(["keygen", "seal", "open"].map(|op| case(("hohibe", op), 1, 1)));
            None
        }
        Err(reason) => Some(reason),
    };
    let figures = Figures(bench.run_interleaved(&mut peers, cases)?);
    let speeds = SPEEDS.into_iter().map(|goal| match &absent {
        Some(reason) if goal.theirs.0 == "hohibe" => Ok(goal.limit.no_peer(reason.as_str())),
        _ => figures.make_row(goal),
    });
    let mut rows = speeds.collect::<Result<Vec<Row>>>()?;
    rows.extend(make_own_rows(&figures)?);
    Ok(rows)
}

/// Makes the rows that compare with no other implementation.
fn make_own_rows(figures: &Figures) -> Result<Vec<Row>> {
    let ns = |op| figures.find_cost(("hibe", op));
    let fp_ns = ns("fp")? / f64::from(FP_CALL);
    let counted_ns = fp_ns * f64::from(TRIAL_FP_MULTIPLICATIONS);
    let counted = format!(
        "{TRIAL_FP_MULTIPLICATIONS} at {fp_ns:.1} ns are {:.3} ms; with every check, of our own: {:.3} ms",
        counted_ns / 1e6,
        ns("open")? / 1e6
    );
    let mean = figures
        .find_series(("fosam", "ratchet"))?
        .ratio_to(figures.find_series(("hibe", "ratchet"))?);
    let ours = f64::from(hibe::RATCHET_CALL);
    let theirs = f64::from(fosam::RATCHET_CALL);
    let mean = BESIDE[1].make_row(mean.value * ours / theirs).with_detail(format!(
        "{:.3} ms by {:.3} ms, of {ours} epochs by {theirs}, with what is derived on the way",
        ns("ratchet")? / 1e6 / ours,
        figures.find_cost(("fosam", "ratchet"))? / 1e6 / theirs
    ));
    Ok(vec![
        MULTIPLICATIONS.make_row(ns("trial")? / counted_ns).with_detail(counted),
        BOUNDARY
            .make_row(ns("boundary")? / 1e3)
            .with_detail("the step alone, which drops; it was prepared"),
        PUBLIC_KEY.make_row(f64::from(u32::try_from(PUBLIC_KEY_BYTES)?)),
        IMPORT.make_row(ns("import")? / 1e6),
        BESIDE[0].make_row((ns("system")? + ns("keygen")?) / 1e6),
        mean,
    ])
}

/// Measures H5: ours and the peer derive the same epochs from a fresh key, in turns.
fn measure_ways(bench: &mut Bench) -> Result<Vec<Row>> {
    let rounds = bench.profile.pick(1, 3, 5);
    let mut least = f64::INFINITY;
    let mut details = Vec::new();
    for epochs in WAYS {
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        for round in 0..rounds {
            let mut way = prepare_forward(round, epochs)?;
            let (done, ns) = cost_ns(&mut way)?;
            done?;
            ours.push(ns);
            let mut stack = KeyStack::from_seed(round);
            let mut rng = ChaCha20Rng::seed_from_u64(round);
            theirs.push(cost_ns(|| stack.move_forward(epochs.into(), &mut rng))?.1);
        }
        let ours = median(&ours);
        let theirs = median(&theirs);
        least = least.min(theirs / ours);
        bench.note_count("ours:hibe", &format!("forward_{epochs}"), "ns", ours)?;
        bench.note_count("ours:fosam", &format!("forward_{epochs}"), "ns", theirs)?;
        details.push(format!(
            "{epochs} epochs: {:.0} ms by {:.0} ms, {:.1}x",
            ours / 1e6,
            theirs / 1e6,
            theirs / ours
        ));
    }
    let row = details.into_iter().fold(FORWARD.make_row(least), Row::with_detail);
    let mut way = prepare_forward(9, DEAREST_WAY)?;
    let (done, ns) = cost_ns(&mut way)?;
    done?;
    Ok(vec![
        row,
        DEAREST
            .make_row(ns / 1e6)
            .with_detail("to epoch 5: 156 derivations, more than to any other"),
    ])
}
