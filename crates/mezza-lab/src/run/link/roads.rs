//! `run link-roads`: for each road (a kind of path between two machines) a path is built and a link
//! is brought up on it. TCP and UDP are measured in both directions, over the tunnel and over the
//! bare path in turn.

use std::time::Duration;

use anyhow::Result;

use super::idle;
use super::page::{self, Rates, SHARE_MIN};
use super::road::{self, Road};
use super::streams::{DatagramLoad, Flow, tcp_mbit, udp_mbit};
use super::world::LinkWorld;
use crate::bench::Bench;
use crate::run::experiment::Report;
use crate::shape::Claim;
use crate::terminal::print_error;

/// UDP load in Mbit/s that every path can carry.
const LOAD_MBIT: f64 = 300.0;
/// The measurements, in column order.
const COLUMNS: [&str; 6] = ["tcp_ab", "tcp_ba", "udp_ab", "udp_ba", "udp_all_ab", "udp_all_ba"];
/// The number of leading columns that must reach the minimum share.
const DECIDING: usize = 4;
/// The goal for a link over bare Ethernet, Gbit/s.
const ETHER_GBIT: f64 = 3.0;
/// Minimum factor by which a link carries more than wireguard-go.
const PEER_TIMES_MIN: f64 = 2.0;
/// Number of roads in a smoke run.
const SMOKE_ROADS: usize = 1;

/// The results of the measurements on a road (a tested kind of path).
struct Measured {
    rates: [Rates; COLUMNS.len()],
    /// TCP over wireguard-go in Mbit/s, A to B and B to A; `None` if the road has no such
    /// measurement.
    peer: Option<[f64; 2]>,
    /// The reason why wireguard-go was not measured on a road that should have it.
    absent: Option<String>,
    shown: [serde_json::Value; 2],
}

/// Measures the matrix.
///
/// # Errors
/// A value that JSON cannot hold.
pub fn make_report(bench: &mut Bench) -> Result<Report> {
    let mut report = Report { about_speed: true, is_markdown: true, ..Report::default() };
    if !nix::unistd::geteuid().is_root() {
        report.absent.push("the matrix: network namespaces need root".to_owned());
        return Ok(report);
    }
    say_how(&mut report, bench);
    for line in page::HEAD {
        report.add_line(line);
    }
    let mut losing = Vec::new();
    let mut unwell = Vec::new();
    let mut not_made = Vec::new();
    let mut least: Option<f64> = None;
    let mut absent = None;
    let count = bench.profile.pick(SMOKE_ROADS, road::ALL.len(), road::ALL.len());
    for (number, road) in road::ALL.iter().take(count).enumerate() {
        print_error(&format!("road {} of {count}: {}", number + 1, road.name));
        let folder = bench.folder.path().join(format!("road{number}"));
        std::fs::create_dir_all(&folder)?;
        let world = match LinkWorld::lay_road(&folder, *road, bench.seed) {
            Ok(world) => world,
            Err(error) => {
                report.add_line(page::absent_line(road.name, &format!("{error:#}")));
                not_made.push(road.name.to_owned());
                continue;
            }
        };
        match measure_road(bench, world) {
            Ok(measured) => {
                report.add_line(page::format_line(
                    road.name,
                    &measured.rates,
                    measured.peer,
                    &measured.shown,
                ));
                note_rates(bench, road, &measured)?;
                if let Some(times) = measured.times_of_peer() {
                    least = Some(least.unwrap_or(f64::INFINITY).min(times));
                }
                absent = absent.or_else(|| measured.absent.clone());
                losing.extend(list_losing(road, &measured));
                if road.name == road::ETHER {
                    report.shapes.push(claim_ether(&measured));
                }
                unwell.extend((!measured.shown.iter().all(page::is_well)).then_some(road.name));
            }
            Err(error) => {
                report.add_line(page::broken_line(road.name, &format!("{error:#}")));
                losing.push(road.name.to_owned());
            }
        }
    }
    let found = |names: &[String]| if names.is_empty() { "none".into() } else { names.join(", ") };
    let text = format!("roads that carry less than {SHARE_MIN} of TCP, or of UDP at 300 Mbit/s");
    report.shapes.push(Claim::is(text, found(&losing), losing.is_empty()));
    let unwell: Vec<String> = unwell.into_iter().map(str::to_owned).collect();
    let text = "roads on which `show` reports trouble, or that the link is down";
    report.shapes.push(Claim::is(text, found(&unwell), unwell.is_empty()));
    report.shapes.push(claim_made(count, &not_made));
    if let Some(least) = least {
        let text = "TCP / wireguard-go's on the same road, where it is least";
        report.shapes.push(Claim::above(text, least, PEER_TIMES_MIN));
    }
    report.absent.extend(absent.map(|reason| format!("wireguard-go: {reason}")));
    report.shapes.push(idle::measure_wakes(bench)?);
    Ok(report)
}

/// Writes the explanation above the table.
fn say_how(report: &mut Report, bench: &Bench) {
    let window = choose_window(bench).as_secs_f64();
    let rounds = match count_rounds(bench) {
        1 => "one round".to_owned(),
        count => format!("the best of {count} rounds"),
    };
    report.add_line(format!(
        "Each cell is the share of the bare path that the tunnel carries, then Mbit/s of the tunnel and of \
         the bare path: {rounds} of {window} s for each, tunnel and bare path in turn. **Bold** cells carry \
         less than half."
    ));
    report.add_line("");
    report.add_line(
        "Both machines are network namespaces on the same cores, so the tunnel's two daemons compete with \
         the streams. Datagrams have 1,100 bytes, behind bridges 1,472. The last two columns send as many \
         datagrams as one thread can. `show` has the counts of dropped frames at the end of the row. \
         wireguard-go runs beside the link where one cable with IPv4 lets it, after the other streams. \
         Netem and netfilter are not needed: lost frames and translated ports are made by a cable in \
         software, whose cards refuse joined datagrams.",
    );
    report.add_line("");
    report.add_line(format!("The program was built with the profile `{}`.", env!("LAB_PROFILE")));
    report.add_line("");
}

fn count_rounds(bench: &Bench) -> usize {
    bench.profile.pick(1, 1, 5)
}

fn choose_window(bench: &Bench) -> Duration {
    Duration::from_millis(bench.profile.pick(300, 700, 2_000))
}

/// Brings a link up on a road, and measures it.
fn measure_road(bench: &Bench, mut world: LinkWorld) -> Result<Measured> {
    world.bring_up()?;
    let mut rates = [Rates::default(); COLUMNS.len()];
    for _ in 0..count_rounds(bench) {
        for (column, best) in rates.iter_mut().enumerate() {
            let from = column % 2;
            let flow = |to| Flow { from, to, window: choose_window(bench) };
            let bare = measure_rate(&world, flow(world.bare_address(1 - from)), column)?;
            best.bare = best.bare.max(bare);
            world.disturb_translator(from);
            let tunnel = measure_rate(&world, flow(world.inner_address(1 - from)), column)?;
            best.tunnel = best.tunnel.max(tunnel);
        }
    }
    let shown = [world.read_shown(0)?, world.read_shown(1)?];
    let (peer, absent) = match measure_peer(bench, &mut world) {
        Ok(peer) => (peer, None),
        Err(error) => (None, Some(format!("{error:#}"))),
    };
    Ok(Measured { rates, peer, absent, shown })
}

/// Measures TCP over wireguard-go. Returns the best of the rounds by direction.
fn measure_peer(bench: &Bench, world: &mut LinkWorld) -> Result<Option<[f64; 2]>> {
    let Some(addresses) = world.start_wireguard()? else { return Ok(None) };
    let mut best = [0.0_f64; 2];
    for _ in 0..count_rounds(bench) {
        for (from, best) in best.iter_mut().enumerate() {
            let flow = Flow { from, to: addresses[1 - from], window: choose_window(bench) };
            *best = best.max(tcp_mbit(world.net(), flow)?);
        }
    }
    Ok(Some(best))
}

impl Measured {
    /// Returns the factor by which the link carries more TCP than wireguard-go, in the worse
    /// direction.
    fn times_of_peer(&self) -> Option<f64> {
        let ours = self.rates.iter().map(|rates| rates.tunnel);
        let times = ours.zip(self.peer?).map(|(ours, theirs)| ours / theirs);
        Some(times.fold(f64::INFINITY, f64::min))
    }
}

/// Measures the Mbit/s of a column.
fn measure_rate(world: &LinkWorld, flow: Flow, column: usize) -> Result<f64> {
    let load = |mbit| DatagramLoad { bytes: world.datagram_bytes(), mbit };
    match column / 2 {
        0 => tcp_mbit(world.net(), flow),
        1 => udp_mbit(world.net(), flow, load(Some(LOAD_MBIT))),
        _ => udp_mbit(world.net(), flow, load(None)),
    }
}

fn note_rates(bench: &mut Bench, road: &Road, measured: &Measured) -> Result<()> {
    for (column, mbit) in
        ["wireguard_ab", "wireguard_ba"].iter().zip(measured.peer.iter().flatten())
    {
        bench.note_count(road.name, column, "Mbit/s", *mbit)?;
    }
    for (column, rates) in COLUMNS.iter().zip(measured.rates) {
        bench.note_count(road.name, &format!("{column}_bare"), "Mbit/s", rates.bare)?;
        bench.note_count(road.name, column, "Mbit/s", rates.tunnel)?;
    }
    Ok(())
}

/// Claims that this machine made each road.
fn claim_made(count: usize, not_made: &[String]) -> Claim {
    let made = count.saturating_sub(not_made.len());
    let without = if not_made.is_empty() {
        String::new()
    } else {
        format!("; not made: {}", not_made.join(", "))
    };
    let found = format!("{made} of {count}{without}");
    Claim::is("this machine made each road", found, count > 0 && not_made.is_empty())
}

/// Makes the claim about links that need no IP.
fn claim_ether(measured: &Measured) -> Claim {
    let gbit = measured.rates[0].tunnel.min(measured.rates[1].tunnel) / 1e3;
    Claim::above("TCP over bare Ethernet in its slower direction, Gbit/s", gbit, ETHER_GBIT)
}

/// Lists the deciding cells in which the tunnel loses.
fn list_losing(road: &Road, measured: &Measured) -> Vec<String> {
    let cells = COLUMNS.iter().zip(measured.rates).take(DECIDING);
    let losing = cells.filter(|(_, rates)| rates.is_losing());
    losing
        .map(|(column, rates)| format!("{} {column} {:.2}", road.name, rates.tunnel_share()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_road_that_is_not_made_fails_its_claim_by_name() {
        assert!(claim_made(20, &[]).holds && !claim_made(0, &[]).holds);
        let claim = claim_made(20, &["VLAN".to_owned()]);
        assert_eq!((claim.holds, &*claim.found), (false, "19 of 20; not made: VLAN"));
    }
}
