//! `run link-soak`: numbered datagrams go to B and back while daemons are killed, cards get new
//! addresses, the MTU changes and keys are exchanged. A datagram may be lost only while a daemon or
//! a card is down.
#![expect(clippy::cast_precision_loss, reason = "counts of a run, far below 2^52")]

use std::net::{IpAddr, UdpSocket};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use super::road;
use super::world::{LinkWorld, wait_until};
use crate::bench::Bench;
use crate::clock::{median, quantile, sort_samples};
use crate::machine;
use crate::run::experiment::Report;
use crate::shape::Claim;

/// The port of the datagrams.
const PORT: u16 = 7_000;
/// Pause between two datagrams.
const PAUSE: Duration = Duration::from_millis(5);
/// Bytes of a datagram.
const BYTES: usize = 1_000;
/// How long a datagram may take to B and back.
const WAY: Duration = Duration::from_secs(2);
/// Quiet time between two incidents.
const QUIET: Duration = Duration::from_secs(2);
/// Incidents before the memory of a daemon is first read for comparison.
const WARM: usize = 8;
/// Maximum growth of a daemon's memory, bytes.
const MORE_BYTES: f64 = 8e6;
/// MTUs that the cable gets.
const MTUS: [u16; 3] = [1_280, 1_400, 1_500];

/// A kind of incident that the test causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strike {
    /// B is killed and starts again.
    Kill,
    /// The card of a side gets a new address.
    Roam,
    /// The cable gets a new MTU.
    Mtu,
    /// New keys are exchanged.
    Exchange,
}

const STRIKES: [(Strike, &str); 4] = [
    (Strike::Kill, "kill of a daemon"),
    (Strike::Roam, "new address of a card"),
    (Strike::Mtu, "change of the MTU"),
    (Strike::Exchange, "exchange"),
];

/// Datagrams that travel from A to B and back.
struct Round {
    sent: Arc<AtomicUsize>,
    /// True for each datagram that came back, by number.
    back: Arc<Mutex<Vec<bool>>>,
    ended: Arc<AtomicBool>,
}

impl Round {
    fn begin_round(world: &LinkWorld, to: IpAddr) -> Result<Self> {
        let round = Self { sent: Arc::default(), back: Arc::default(), ended: Arc::default() };
        let socket = |side, port| -> Result<UdpSocket> {
            let socket =
                world.net().run_within(side, move || UdpSocket::bind(("0.0.0.0", port)))??;
            socket.set_read_timeout(Some(PAUSE * 20))?;
            Ok(socket)
        };
        let own = socket(0, 0)?;
        let echo = socket(1, PORT)?;
        let receiver = own.try_clone()?;
        let sent = Arc::clone(&round.sent);
        let ended = Arc::clone(&round.ended);
        std::thread::spawn(move || {
            let mut datagram = vec![0; BYTES];
            while !ended.load(Ordering::Relaxed) {
                let number = sent.fetch_add(1, Ordering::Relaxed);
                datagram[..8].copy_from_slice(&(number as u64).to_be_bytes());
                // Without the interface there is no route, so sending fails.
                let _ = own.send_to(&datagram, (to, PORT));
                std::thread::sleep(PAUSE);
            }
        });
        let ended = Arc::clone(&round.ended);
        std::thread::spawn(move || {
            let mut buffer = vec![0; 2 * BYTES];
            while !ended.load(Ordering::Relaxed) {
                if let Ok((bytes, from)) = echo.recv_from(&mut buffer) {
                    let _ = echo.send_to(&buffer[..bytes], from);
                }
            }
        });
        let back = Arc::clone(&round.back);
        let ended = Arc::clone(&round.ended);
        std::thread::spawn(move || {
            let mut buffer = vec![0; 2 * BYTES];
            while !ended.load(Ordering::Relaxed) {
                let Ok(bytes) = receiver.recv(&mut buffer) else { continue };
                let Some(number) = buffer[..bytes].first_chunk::<8>() else { continue };
                let number = usize::try_from(u64::from_be_bytes(*number)).unwrap_or(usize::MAX);
                let mut back = back.lock().unwrap_or_else(PoisonError::into_inner);
                if number < back.len() + (1 << 20) {
                    let long = back.len().max(number + 1);
                    back.resize(long, false);
                    back[number] = true;
                }
            }
        });
        Ok(round)
    }

    fn count_sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns true if a datagram of this number or a later one came back.
    fn is_back(&self, number: usize) -> bool {
        let back = self.back.lock().unwrap_or_else(PoisonError::into_inner);
        back.iter().skip(number).any(|back| *back)
    }

    /// Lists the numbers of the datagrams before `total` that did not come back.
    fn list_lost(&self, total: usize) -> Vec<usize> {
        let back = self.back.lock().unwrap_or_else(PoisonError::into_inner);
        (0..total).filter(|number| !back.get(*number).copied().unwrap_or(false)).collect()
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// One incident: the numbers sent meanwhile, and the time until a later datagram came back.
struct Struck {
    strike: Strike,
    numbers: Range<usize>,
    ms: f64,
    /// True if the incident took place as intended; an exchange may fail.
    is_done: bool,
}

/// Returns the memory in bytes and the open files of a daemon.
fn read_resources(world: &LinkWorld, side: usize) -> Result<[f64; 2]> {
    let id = *world.net().tunnels().get(side).context("no daemon")?;
    let bytes = machine::resident_bytes(id).context("the system does not tell memory")?;
    Ok([bytes, std::fs::read_dir(format!("/proc/{id}/fd"))?.count() as f64])
}

/// Runs the incidents on a link.
///
/// # Errors
/// A link that does not come up at the beginning, or not after a strike.
pub fn make_report(bench: &mut Bench) -> Result<Report> {
    let mut report = Report::default();
    if !nix::unistd::geteuid().is_root() {
        report.absent.push("the soak: network namespaces need root".to_owned());
        return Ok(report);
    }
    let folder = bench.folder.path().join("soak");
    std::fs::create_dir_all(&folder)?;
    let mut world = LinkWorld::lay_road(&folder, road::PLAIN, bench.seed)?;
    world.bring_up()?;
    let round = Round::begin_round(&world, world.inner_address(1))?;
    let mut dice = ChaCha20Rng::seed_from_u64(bench.seed);
    let end = Instant::now() + Duration::from_secs(bench.profile.pick(20, 600, 3_600));
    let mut all = Vec::new();
    let mut held = None;
    while Instant::now() < end {
        // Most incidents are exchanges, which must lose nothing.
        let (strike, _) = STRIKES[(dice.next_u32() as usize % 10).min(STRIKES.len() - 1)];
        all.push(strike_once(&mut world, &round, strike, dice.next_u32())?);
        if strike != Strike::Exchange {
            std::thread::sleep(QUIET);
        }
        if all.len() == WARM {
            held = Some(read_resources(&world, 0)?);
        }
    }
    let total = round.count_sent();
    std::thread::sleep(WAY);
    add_results(bench, &mut report, &round, &all, total)?;
    let failed = all.iter().filter(|struck| !struck.is_done).count();
    report.shapes.push(Claim::at_most("exchanges that failed", failed as f64, 0.0));
    let before = held.context("a run that is too short")?;
    let after = read_resources(&world, 0)?;
    let more = (after[0] - before[0]) / 1e6;
    report.shapes.push(Claim::below(
        "memory that A holds more at the end, MB",
        more,
        MORE_BYTES / 1e6,
    ));
    report.shapes.push(Claim::below("open files that A has more", after[1] - before[1], 3.0));
    let well = [world.read_shown(0)?, world.read_shown(1)?].iter().all(super::page::is_well);
    report.shapes.push(Claim::is("both sides are up without trouble at the end", "", well));
    Ok(report)
}

fn strike_once(world: &mut LinkWorld, round: &Round, strike: Strike, dice: u32) -> Result<Struck> {
    let begun = Instant::now();
    let first = round.count_sent();
    let side = dice as usize % 2;
    let mut is_done = true;
    match strike {
        Strike::Kill => world.restart_daemon(1)?,
        Strike::Roam => world.change_address(side, dice.to_be_bytes()[1])?,
        Strike::Mtu => world.set_mtu(MTUS[dice as usize % MTUS.len()])?,
        Strike::Exchange => is_done = world.rekey_link(side)?,
    }
    let after = round.count_sent();
    if !wait_until(|| Ok(round.is_back(after)))? {
        let [a, b] = [world.read_shown(0)?, world.read_shown(1)?];
        bail!("the link does not come back after {strike:?} of side {side}: A {a}, B {b}");
    }
    let ms = begun.elapsed().as_secs_f64() * 1e3;
    // Wait a moment longer: earlier frames may still wait for the new session.
    std::thread::sleep(PAUSE * 20);
    Ok(Struck { strike, numbers: first.saturating_sub(1)..round.count_sent(), ms, is_done })
}

/// Adds the table, and the claim about unexcused losses.
fn add_results(
    bench: &mut Bench,
    report: &mut Report,
    round: &Round,
    all: &[Struck],
    total: usize,
) -> Result<()> {
    report.add_line(format!("{total} datagrams of {BYTES} bytes from A to B and back"));
    report.add_line(format!(
        "  {:<24}{:>8}{:>16}{:>16}{:>16}",
        "", "count", "datagrams lost", "back, median", "back, worst"
    ));
    let all_lost = round.list_lost(total);
    for (strike, name) in STRIKES {
        let of: Vec<&Struck> = all.iter().filter(|struck| struck.strike == strike).collect();
        let windows: Vec<Range<usize>> = of.iter().map(|struck| struck.numbers.clone()).collect();
        let lost = count_inside(&all_lost, &windows);
        let times = sort_samples(of.iter().map(|struck| struck.ms).collect());
        let [half, worst] =
            if times.is_empty() { [f64::NAN; 2] } else { [median(&times), quantile(&times, 1.0)] };
        report.add_line(format!(
            "  {name:<24}{:>8}{lost:>16}{half:>13.0} ms{worst:>13.0} ms",
            of.len()
        ));
        bench.note_count("soak", name, "times", of.len() as f64)?;
    }
    let unexcused = count_unexcused(&all_lost, all);
    report.add_line(format!(
        "  lost in all: {}, of which {unexcused} outside each kill and new address",
        all_lost.len()
    ));
    report.add_line("  a datagram that is lost between two incidents of two kinds counts in both rows, and once in the line above");
    let claim = "datagrams lost while daemons and cards were up";
    report.shapes.push(Claim::at_most(claim, unexcused as f64, 0.0));
    Ok(())
}

/// Counts the datagrams that lie in at least one of the windows.
fn count_inside(lost: &[usize], windows: &[Range<usize>]) -> usize {
    lost.iter().filter(|number| windows.iter().any(|window| window.contains(number))).count()
}

/// Counts the lost datagrams that lie in no window of a kill or a new address. A datagram in two
/// windows counts once.
fn count_unexcused(lost: &[usize], all: &[Struck]) -> usize {
    let excuses = all.iter().filter(|s| matches!(s.strike, Strike::Kill | Strike::Roam));
    let windows: Vec<Range<usize>> = excuses.map(|struck| struck.numbers.clone()).collect();
    lost.len() - count_inside(lost, &windows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram in the windows of two kills excuses no other loss.
    #[test]
    fn a_datagram_that_is_lost_in_two_incidents_counts_once() {
        let struck = |strike, numbers| Struck { strike, numbers, ms: 1.0, is_done: true };
        let all = [
            struck(Strike::Kill, 10..21),
            struck(Strike::Kill, 20..31),
            struck(Strike::Exchange, 40..50),
        ];
        let lost = [12, 20, 45];
        assert_eq!(count_unexcused(&lost, &all), 1);
        assert_eq!(count_unexcused(&lost[..2], &all), 0);
        assert_eq!(count_inside(&lost, &[10..21, 20..31]), 2);
    }
}
