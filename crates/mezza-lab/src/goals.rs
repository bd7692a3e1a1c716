//! `goals PART`: the target rows of a design document, each with its limit, from one run.

pub mod guard;
pub mod hibe;
mod idle;
pub mod lanes;
mod measurement;
pub mod mesh;
pub mod mixnet;
pub mod node;
pub mod ratchet;
pub mod seka;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use mezza::testing::api::{Exit, Fault};
use serde_json::json;

use crate::args::MeasureArgs;
use crate::bench::Bench;
use crate::machine::Hardware;
use crate::profile::Profile;
use crate::raw::{self, RunSpec};
use crate::row::{Row, Verdict, exit_code};
use crate::terminal::{print_error, print_line};
use crate::{peer, place};
use measurement::Measurement;

/// The revision: it is raised when the meaning of a figure changes.
const REV: u32 = 1;

/// The arguments of `goals`.
#[derive(Debug, Args)]
pub struct Order {
    /// The part whose goals are measured
    part: PartName,
    /// How long to measure
    #[arg(long, value_enum, default_value_t = Profile::Full)]
    profile: Profile,
    /// Only these rows, for example M2,M4
    #[arg(long, value_delimiter = ',', value_name = "ID,..")]
    only: Vec<String>,
    #[command(flatten)]
    args: MeasureArgs,
}

/// Parts that have goals.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum PartName {
    /// One device, its node and the relay
    Node,
    /// Sessions between two devices
    Ratchet,
    /// Mixes, entry and their clients
    Mixnet,
    /// Many inputs at once
    Lanes,
    /// Envelopes that open for a minute, and their key tree
    Hibe,
    /// Reverse firewalls
    Guard,
    /// Crowds and nodes of the mesh
    Mesh,
    /// Links between two devices
    Seka,
}

impl PartName {
    /// Returns the name of the part.
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Ratchet => "ratchet",
            Self::Mixnet => "mixnet",
            Self::Lanes => "lanes",
            Self::Hibe => "hibe",
            Self::Guard => "guard",
            Self::Mesh => "mesh",
            Self::Seka => "seka",
        }
    }

    /// All parts, in the order of the list.
    pub const ALL: [Self; 8] = [
        Self::Node,
        Self::Lanes,
        Self::Hibe,
        Self::Ratchet,
        Self::Mixnet,
        Self::Guard,
        Self::Mesh,
        Self::Seka,
    ];

    /// Returns the measurements, the name of the raw file, and the peers of the rows.
    fn goals(self) -> (&'static [Measurement], &'static str, &'static [&'static str]) {
        match self {
            Self::Node => (node::ALL, "node-goals", &[]),
            Self::Lanes => (lanes::ALL, "lanes-goals", lanes::PEERS),
            Self::Hibe => (hibe::ALL, "hibe-goals", hibe::PEERS),
            Self::Ratchet => (ratchet::ALL, "ratchet-goals", ratchet::PEERS),
            Self::Mesh => (mesh::ALL, "mesh-goals", &[]),
            Self::Mixnet => (mixnet::ALL, "mixnet-goals", mixnet::PEERS),
            Self::Guard => (guard::ALL, "guard-goals", guard::PEERS),
            Self::Seka => (seka::ALL, "seka-goals", seka::PEERS),
        }
    }
}

/// Measures and prints the rows. Returns the exit code.
///
/// # Errors
/// An unknown row, a busy machine, a peer that cannot be fetched, or a failed disk.
pub fn measure_goals(order: Order) -> Result<Exit> {
    let Order { part, profile, only, args: MeasureArgs { fetch, json, seed, shard, out } } = order;
    let (all, experiment, peers) = part.goals();
    let mut chosen = choose_measurements(all, &only)?;
    if let Some(shard) = shard {
        chosen = shard.pick_jobs(chosen, |measurement| profile.cost_s(measurement.seconds));
    }
    if fetch {
        peers.iter().try_for_each(|name| peer::fetch_peer(name))?;
    }
    let out = place::out_folder(out);
    let mut params = json!({ "only": only });
    if let Some(shard) = shard {
        params["shard"] = json!(shard.to_string());
    }
    let run = RunSpec { experiment, rev: REV, profile, seed, params, exclusive: true, shard };
    let mut bench = Bench::new(&run, &out)?;
    let rows = measure_rows(&mut bench, &chosen);
    let path = bench.write_raw()?;
    print_rows(&rows, json, part, profile)?;
    if !json {
        print_line(&format!("raw   {}", path.display()))?;
    }
    Ok(exit_code(&rows, profile != Profile::Smoke))
}

fn choose_measurements(
    all: &'static [Measurement],
    only: &[String],
) -> Result<Vec<&'static Measurement>> {
    let named = |measurement: &Measurement, name: &str| {
        measurement.ids().iter().any(|id| id.eq_ignore_ascii_case(name))
    };
    let unknown = only.iter().find(|name| !all.iter().any(|m| named(m, name)));
    if let Some(name) = unknown {
        let text = format!("there is no row {name}");
        bail!(Fault::new(Exit::NotFound, text, "`mezza-lab list` shows them"));
    }
    let wanted = |m: &&Measurement| only.is_empty() || only.iter().any(|name| named(m, name));
    Ok(all.iter().filter(wanted).collect())
}

/// Returns the rows in the order of their ids. A failed measurement gives broken rows, and the run
/// continues.
fn measure_rows(bench: &mut Bench, chosen: &[&Measurement]) -> Vec<Row> {
    let mut rows = Vec::new();
    for measurement in chosen {
        let ids = Vec::from_iter(measurement.ids());
        print_error(&format!("measuring {}", ids.join(" ")));
        match (measurement.run)(bench) {
            Ok(measured) => rows.extend(measured),
            Err(error) => {
                rows.extend(measurement.limits().map(|limit| limit.broken_row(&error)));
            }
        }
    }
    rows.sort_by_key(|row| row.id);
    rows
}

fn print_rows(rows: &[Row], json: bool, part: PartName, profile: Profile) -> Result<()> {
    if json {
        for row in rows {
            print_line(&row.to_json().to_string())?;
        }
        return Ok(());
    }
    let built = raw::describe_build()["profile"].as_str().context("no build profile")?.to_owned();
    print_line(&format!(
        "goals of the {}, profile {}, {built} build, machine {}",
        part.name(),
        profile.name(),
        Hardware::of_this_machine().id()
    ))?;
    print_line(&format!("{:<48} {:>14} {:>16} {:>6}", "    goal", "measured", "limit", "ratio"))?;
    for line in rows.iter().flat_map(Row::to_lines) {
        print_line(&line)?;
    }
    let count = |verdict| rows.iter().filter(|row| row.verdict() == verdict).count();
    let decides = if profile == Profile::Smoke { "; smoke figures decide nothing" } else { "" };
    print_line(&format!(
        "{} hold, {} fall short, {} not measurable here, {} without a peer, {} broken{decides}",
        count(Verdict::Holds),
        count(Verdict::FallsShort),
        count(Verdict::NotHere),
        count(Verdict::NoPeer),
        count(Verdict::Error)
    ))
}

/// Returns the lines of `mezza-lab list` for a part.
pub fn list_part(part: PartName, out: &std::path::Path) -> Vec<String> {
    let ((all, experiment, _), mut lines) = (part.goals(), Vec::new());
    for measurement in all {
        let [smoke, quick, full] = measurement.seconds;
        let needs = measurement.needs;
        lines.extend(measurement.limits().map(|limit| format!("  {limit}")));
        lines.push(format!("      {smoke} / {quick} / {full} s   needs: {needs}"));
    }
    let state = raw::describe_state(out, experiment);
    lines.push(format!("run them with `mezza-lab goals {}`; {state}", part.name()));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_design_is_there_once() {
        let ids = |part: PartName| {
            let mut ids: Vec<&str> = part.goals().0.iter().flat_map(Measurement::ids).collect();
            ids.sort_unstable();
            ids
        };
        assert_eq!(
            ids(PartName::Node),
            ["M1", "M10", "M11", "M2", "M3", "M4", "M5", "M6", "M7", "M8", "M9"]
        );
        assert_eq!(ids(PartName::Ratchet), ["T1", "T2", "T3", "T4", "T5"]);
        assert_eq!(ids(PartName::Mixnet), ["T1", "T2", "T3", "T4", "T5", "T6", "T7", "T8", "T9"]);
        assert_eq!(ids(PartName::Mesh), ["T1", "T11", "T12", "T4", "T5"]);
        assert_eq!(ids(PartName::Lanes), ["L1", "L2", "L3", "L6"]);
        assert_eq!(ids(PartName::Hibe), ["H1", "H2", "H3", "H4", "H5", "H6", "H7"]);
        // T3 belongs to kernels, T6 to the daemon; T7 is the attack matrix.
        assert_eq!(ids(PartName::Guard), ["T1", "T2", "T4", "T5", "T6", "T8"]);
        assert_eq!(ids(PartName::Seka), ["S1", "S10", "S11", "S2", "S5", "S6", "S7", "S8", "S9"]);
    }

    /// Row, goal, direction and bound of all parts, as in the designs.
    const LIMITS: &str = "\
        M6 JavaScript of the first screen, gzip <= 60 kB
        M6 first screen on loopback <= 1 s
        M7 build of the program, CPU <= 600 s
        M7 all crates / libsqlite3-sys <= 10 x
        M4 device CPU per sent note / its four operations <= 1.5 x
        M5 unlock beside Argon2, CPU, 300 ms for 50,000 notes <= of the run, ms
        M11 make a backup, CPU, 10 s for 100,000 notes <= of the run, s
        M11 make a backup, memory above idle <= 64 MiB
        M11 check and restore, CPU, 20 s for 100,000 notes <= of the run, s
        M11 check and restore, memory above idle <= 64 MiB
        M2 durable puts of 1 KiB >= 15000 /s
        M2 durable puts / the same with synchronous=OFF >= 0.3 x
        M2 durable puts / one commit each shown, x
        M3 idle watchers of a relay, each <= 30 kB
        M9 a put beside eight greedy connections, p99 <= 5 x
        M10 idle node with a relay, traffic <= 100 MB/month
        M10 idle node with a relay, wake-ups <= 0.5 /s
        M10 idle node with a relay, CPU <= 10 s/day
        M1 send -> delivered, p50 <= 2f + empty path + 1 ms <= of the run, ms
        M1 send -> delivered, p99 <= 4f + 10 ms <= of the run, ms
        M1 the same path with nothing in it, p50 shown, ms
        M8 idle node, resident memory <= 60 MiB
        L1 X25519, one scalar: ifma / dalek, speed >= 8 x
        L1 X25519, one scalar: ifma / crypto_mb, speed >= 1.1 x
        L2 fixed point: ifma / dalek, speed >= 10 x
        L2 fixed point: ifma / crypto_mb, speed shown, x
        L3 seal 368 B, fresh key: ifma / ring, speed >= 2.5 x
        L3 seal 368 B, fresh key: ifma / aws-lc, speed shown, x
        L1 X25519, one scalar: portable / dalek, speed >= 0.95 x
        L2 fixed point: portable / dalek, speed >= 0.95 x
        L3 seal 368 B, fresh key: portable / rustcrypto, speed >= 2.5 x
        L1 X25519, one scalar: aws-lc / dalek, speed shown, x
        L6 release build of the crate, CPU <= 30 s
        H1 keygen, one shot / hohibe, speed >= 2.4 x
        H1 keygen, table of P2 at hand / hohibe, speed >= 3.8 x
        H2 encrypt 1 KiB, real epoch / hohibe, speed >= 15 x
        H2 encrypt 1 KiB, real epoch / paper profile, speed >= 30 x
        H3 trial opening / hohibe, speed >= 3 x
        H3 trial opening / paper profile, speed >= 4 x
        H3 trial opening / its multiplications in Fp <= 1.25 x, stretch 1.15
        H4 ratchet on the path <= 5 us
        H6 public key <= 624 B
        H7 import of a full stack <= 10 ms
        H1 keygen with the tables of its process shown, ms
        H4 ratchet, mean of an epoch / paper profile shown, x
        H5 way forward, the least of three / paper profile >= 20 x
        H5 the dearest way forward shown, ms
        T1 v3 seal 32 B / vodozemac <= 0.2 x
        T1 v3 open 32 B / vodozemac <= 1 x
        T1 v3 turn / vodozemac <= 0.8 x
        T1 v3 seal 1.4 MB / vodozemac <= 0.85 x
        T2 v3 turn / Java <= 0.33 x
        T2 v3 session, initiator / Java <= 0.4 x
        T2 v3 session, responder / Java <= 0.4 x
        T2 v3 seal 32 B / Java <= 0.25 x
        T2 v3 session, initiator / wacore-libsignal <= 0.85 x
        T2 v3 session, responder / wacore-libsignal <= 0.85 x
        T2 v3 session, initiator / vodozemac shown, x
        T2 v3 session, responder / vodozemac shown, x
        T3 b2c20 seal 32 B / v3 <= 0.75 x
        T3 b2c20 seal 1 KiB / v3 <= 0.88 x
        T3 b2c20 seal 1.4 MB / v3 <= 0.98 x
        T3 b2c20 open 32 B / v3 <= 0.55 x
        T3 b2c20 open 1 KiB / v3 <= 0.6 x
        T3 b2c20 open 1.4 MB / v3 <= 0.92 x
        T3 paper seal 32 B / v3, ratchets alone <= 0.8 x
        T3 paper seal 1 KiB / v3, ratchets alone <= 0.6 x
        T3 paper seal 1.4 MB / v3, ratchets alone <= 0.45 x
        T4 v3: a message 1,999 ahead <= 2 ms
        T4 b2c20: a message 4,900 ahead <= 2 ms
        T4 the message after it / a usual one <= 1.2 x
        T5 look-up among 2,000 skipped keys <= 1 us
        T5 10,000 forgeries / 10,000 opens <= 2 x
        T1 mu 0, onions made before >= 100000 /s
        T1 mu 0 / ladders that the cores could do >= 0.6 x
        T2 1 M users of preset standard, scaled >= 80000 /s
        T3 noise of preset standard alone <= 2 s
        T1 mu 0 / Go floor >= 5.5 x
        T3 preset standard alone / Go at the paper's mean >= 40 x, stretch 60
        T7 aws-lc kernel / Go floor, messages/s >= 1.25 x
        T7 portable kernel / Go floor, messages/s >= 0.65 x
        T4 latency by users >= 99.5 % R^2
        T4 latency by noise >= 99.5 % R^2
        T4 CPU time of few users, the worst of three mu >= 98 % R^2
        T5 jobs, links and waiting of a round >= 90 %, stretch 95
        T6 entry, memory of a client <= 16 KiB
        T6 load, memory of a client <= 16 KiB
        T6 onions of the load by core >= 100000 /s
        T8 rounds that open before one comes back <= 2 rounds
        T9 idle member, preset standard, traffic <= 6600 MB/month
        T9 idle member, preset standard, wake-ups <= 2 /s
        T9 idle member, preset standard, CPU <= 120 s/day
        T1 elliptic variants / their unit operations <= 1.1 x
        T1 EC_DH / four X25519 of OpenSSL, speed >= 1 x
        T2 DH_Comm, portable / OpenSSL, speed >= 1.4 x
        T2 DH_Comm_FW full, portable / OpenSSL, speed >= 1.1 x
        T2 ElGamal, portable / OpenSSL, speed >= 0.65 x
        T4 DH_FW is 50 %, off by <= 5 points
        T4 DH_Comm_FW basic is 30 %, off by <= 5 points
        T4 DH_Comm_FW full is 60 %, off by <= 5 points
        T4 the same with GUARD-7 is 80 %, off by <= 5 points
        T4 EG_Rerand is 50 %, off by <= 5 points
        T4 EG_Maul is 75 %, off by <= 5 points
        T4 EG_ReMaul is 125 %, off by <= 5 points
        T5 GKX guard / its 3 + 4 powers, 7 codings <= 1.15 x
        T5 coin check / 1 power, 1 decode, 1 encode <= 1.15 x
        T6 KE1 to KE2, guard adds / plain relay adds <= 2.5 x
        T6 round trip of a record, guard adds / plain relay adds <= 2.5 x
        T6 records in both directions, guard's time / plain relay's <= 2.5 x
        T8 safe prime of 3072 bit, expected tests <= 5400 tests
        T1 600 users who sit / counted bit tests >= 0.08 x
        T1 600 users who walk / counted bit tests >= 0.045 x
        T1 1,000 users who sit / counted bit tests >= 0.12 x
        T4 arrived, 600 users who sit >= 99.9 %
        T4 mean latency, 600 users who sit <= 1.2 s
        T4 arrived, 600 users who walk >= 99 %
        T5 bytes sent for each cell and device <= 290 bytes
        T11 cells from one node to the next by bytes >= 5000 /s
        T11 store of a node for 1,000 live cells <= 10 MB
        T12 idle node, one neighbour, traffic <= 100 MB/month
        T12 idle node, one neighbour, wake-ups <= 3 /s
        T12 idle node, one neighbour, CPU <= 30 s/day
        S1 exchange, suite paper / four X25519 <= 1.1 x
        S1 exchange, suite default / four X25519 <= 1.3 x
        S2 exchange / WireGuard's handshake (boringtun) <= 0.2 x
        S2 exchange / TLS 1.3, Ed25519 mutual (rustls) <= 0.333 x
        S2 exchange / TLS 1.3, P-256 mutual (rustls) shown, x
        S5 junk KE1, suite default / two HMAC of 80 B <= 1.4 x
        S5 junk KE1, suite paper / two GMAC of 80 B <= 1.4 x
        S6 tunnel, TCP / raw veth >= 0.4 x, stretch 0.55
        S6 tunnel, TCP / wireguard-go of 2026 >= 2 x, stretch 3
        S6 tunnel, TCP / boringtun >= 4 x, stretch 8
        S6 tunnel, TCP / OpenVPN >= 4 x, stretch 6
        S7 bare Ethernet, TCP / wireguard-go shown, x
        S8 tunnel, TCP, encrypted / plain >= 0.75 x, stretch 1
        S9 added latency, median / wireguard-go's <= 0.25 x
        S10 frames lost in forced rekeys at half capacity <= 0 frames
        S11 throughput lost to 2,000 junk KE1 a second <= 10 %";

    #[test]
    fn every_limit_is_that_of_its_design() {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let held: Vec<String> = PartName::ALL
            .into_iter()
            .flat_map(|part| part.goals().0)
            .flat_map(Measurement::limits)
            .map(|limit| words(&limit.to_string()))
            .collect();
        assert_eq!(held, LIMITS.lines().map(words).collect::<Vec<_>>());
    }

    #[test]
    fn rows_are_chosen_by_their_ids() {
        assert_eq!(choose_measurements(node::ALL, &[]).unwrap().len(), node::ALL.len());
        assert_eq!(choose_measurements(node::ALL, &["m2".into(), "M4".into()]).unwrap().len(), 2);
        let error = choose_measurements(node::ALL, &["M99".into()]).err().unwrap();
        assert_eq!(crate::place::exit_of(&error), Exit::NotFound);
    }
}
