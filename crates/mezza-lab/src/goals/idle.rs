//! The cost of an idle client in common units: traffic per month, wake-ups per second, CPU time per
//! day.
//!
//! ```text
//!  namespace A                                        namespace B
//!  the client --- va 10.9.0.1 ------- veth ------- vb 10.9.0.2 --- its servers, or its peer
//!                  | counters: Ethernet frames with all headers, without preamble and checksum
//! ```
//!
//! Figures are extrapolated from the time of the measurement, so they lack work that happens once a
//! day.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

use super::seka::net::Namespaces;
use crate::bench::Bench;
use crate::limit::Limit;
use crate::row::Row;

/// The namespace of the client, and that of its servers or its peer.
pub const SIDES: [usize; 2] = [0, 1];
/// The address of the servers.
pub const SERVER: &str = "10.9.0.2";
/// The interface of the client.
pub const CARD: &str = "va";
/// The requirements of these rows, for the user.
pub const NEEDS: &str = "root, network namespaces, `ip`";

/// Pause between two readings of the threads' counters. A thread that begins and ends within a
/// pause is not counted.
const LOOK: Duration = Duration::from_millis(250);
const DAY_S: f64 = 86_400.0;
const MONTH_S: f64 = 30.0 * DAY_S;
/// Published figures for comparison.
const CONTEXT: &str =
    "context: Groove prints 100 MB a month and 50 mW (their figure, not in this run)";

/// Returns the limits of a client: MB per month, wake-ups per second, CPU seconds per day.
pub const fn make_limits(id: &'static str, goals: [&'static str; 3], most: [f64; 3]) -> [Limit; 3] {
    [
        Limit::at_most(id, goals[0], most[0], "MB/month"),
        Limit::at_most(id, goals[1], most[1], "/s"),
        Limit::at_most(id, goals[2], most[2], "s/day"),
    ]
}

/// Returns rows that name the missing requirement, or `None` if this process can measure.
pub fn not_here(limits: &[Limit; 3]) -> Option<Vec<Row>> {
    let text = "network namespaces need root; run the lab with sudo";
    let is_root = nix::unistd::geteuid().is_root();
    (!is_root).then(|| limits.iter().map(|limit| limit.not_here(text)).collect())
}

/// Makes two namespaces and a cable between them. Each frame is one segment, so that the counters
/// include all headers.
///
/// # Errors
/// Without root, or without `ip`.
pub fn lay_cable(folder: &Path) -> Result<Namespaces> {
    let net = Namespaces::new(folder)?;
    for (side, card) in SIDES.into_iter().zip([CARD, "vb"]) {
        net.ip(side, &["link", "set", "dev", card, "gso_max_segs", "1"])?;
    }
    Ok(net)
}

/// Switches IPv6 off in both namespaces: the kernel's own neighbour messages are no traffic of a
/// client that uses only IPv4.
///
/// # Errors
/// If the kernel refuses the setting.
pub fn switch_off_ip6(net: &Namespaces) -> Result<()> {
    let path = Path::new("/proc/sys/net/ipv6/conf/all/disable_ipv6");
    // A kernel without IPv6 sends nothing over it.
    SIDES.into_iter().filter(|_| path.exists()).try_for_each(|side| {
        net.run_within(side, move || std::fs::write(path, "1"))??;
        Ok(())
    })
}

/// The counters of a process and of the interface in its namespace.
#[derive(Clone, Copy, Debug)]
pub struct IdleCost {
    /// Length of the measurement, s.
    pub seconds: f64,
    /// Bytes received and sent.
    pub bytes: [f64; 2],
    /// Frames received and sent.
    pub frames: [f64; 2],
    /// How often a thread slept, and therefore woke up.
    pub wakes: f64,
    /// CPU time of all threads, seconds.
    pub cpu_s: f64,
}

impl IdleCost {
    /// Watches a process for `length`.
    ///
    /// # Errors
    /// If the process ends, or has no interface `card`.
    pub fn watch_process(pid: u32, card: &str, length: Duration) -> Result<Self> {
        let mut wakes = Wakes::from_process(pid)?;
        let before = read_counters(pid, card)?;
        let cpu = cpu_time(pid)?;
        let began = Instant::now();
        while began.elapsed() < length {
            std::thread::sleep(LOOK.min(length.saturating_sub(began.elapsed())));
            wakes.update_counts()?;
        }
        let seconds = began.elapsed().as_secs_f64();
        let after = read_counters(pid, card)?;
        let difference = |at: usize| after[at] - before[at];
        Ok(Self {
            seconds,
            bytes: [difference(0), difference(2)],
            frames: [difference(1), difference(3)],
            wakes: wakes.count_wakes(),
            cpu_s: cpu_time(pid)?.saturating_sub(cpu).as_secs_f64(),
        })
    }

    /// Returns the sum of received and sent bytes.
    pub fn all_bytes(&self) -> f64 {
        self.bytes.iter().sum()
    }

    /// Extrapolates the counts to a month and to a day.
    pub fn extrapolate(&self) -> ClientCost {
        ClientCost {
            mb_month: self.all_bytes() / self.seconds * MONTH_S / 1e6,
            wakes_s: self.wakes / self.seconds,
            cpu_s_day: self.cpu_s / self.seconds * DAY_S,
        }
    }

    /// Describes the counts for the user.
    pub fn describe_counts(&self) -> String {
        let Self { seconds, bytes: [came, left], frames, wakes, cpu_s } = self;
        format!(
            "in {seconds:.0} s: {came:.0} B came in {:.0} frames, {left:.0} B left in {:.0}; {wakes:.0} wake-ups, \
             {:.1} ms of CPU",
            frames[0],
            frames[1],
            cpu_s * 1e3
        )
    }
}

/// The cost of an idle client in common units.
#[derive(Clone, Copy, Debug)]
pub struct ClientCost {
    /// Traffic both ways with all headers, MB in 30 days.
    pub mb_month: f64,
    /// Wake-ups per second.
    pub wakes_s: f64,
    /// CPU seconds per day.
    pub cpu_s_day: f64,
}

impl ClientCost {
    /// Makes the rows of these limits, with `words` below the first row.
    ///
    /// # Errors
    /// A value that JSON cannot hold.
    pub fn make_rows(
        &self,
        bench: &mut Bench,
        limits: &[Limit; 3],
        words: impl IntoIterator<Item = String>,
    ) -> Result<Vec<Row>> {
        let values = [
            ("idle_traffic", "MB_per_month", self.mb_month),
            ("idle_wakes", "per_s", self.wakes_s),
            ("idle_cpu", "s_per_day", self.cpu_s_day),
        ];
        let mut rows = Vec::new();
        for (limit, (op, unit, value)) in limits.iter().zip(values) {
            bench.note_count("ours", op, unit, value)?;
            rows.push(limit.make_row(value));
        }
        let first = rows.remove(0);
        let first = words.into_iter().fold(first, Row::with_detail).with_detail(CONTEXT);
        rows.insert(0, first);
        Ok(rows)
    }
}

/// How often the threads of a process have slept. An ended thread keeps its last count.
struct Wakes {
    pid: u32,
    /// Context switches by thread: at the start, and at the last look.
    threads: BTreeMap<String, [f64; 2]>,
}

impl Wakes {
    fn from_process(pid: u32) -> Result<Self> {
        let threads = read_switches(pid)?.into_iter().map(|(id, now)| (id, [now; 2])).collect();
        Ok(Self { pid, threads })
    }

    fn update_counts(&mut self) -> Result<()> {
        for (id, now) in read_switches(self.pid)? {
            self.threads.entry(id).or_default()[1] = now;
        }
        Ok(())
    }

    fn count_wakes(&self) -> f64 {
        self.threads.values().map(|[before, now]| now - before).sum()
    }
}

/// Returns the voluntary context switches of each thread.
fn read_switches(pid: u32) -> Result<Vec<(String, f64)>> {
    let mut found = Vec::new();
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?;
        // A thread may have ended since the folder was read.
        let Ok(status) = std::fs::read_to_string(thread.path().join("status")) else { continue };
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        let count = line.context("no count of switches")?.trim().parse()?;
        found.push((thread.file_name().to_string_lossy().into_owned(), count));
    }
    Ok(found)
}

/// Returns the CPU time of all threads of a process, including ended threads.
fn cpu_time(pid: u32) -> Result<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid.try_into()?))?;
    Ok(clock_gettime(clock)?.into())
}

/// Returns received bytes, received frames, sent bytes and sent frames of an interface in the
/// namespace of a process.
fn read_counters(pid: u32, card: &str) -> Result<[f64; 4]> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/net/dev"))?;
    let fields = of_card(&text, card).with_context(|| format!("no interface {card}"))?;
    let numbers = fields.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
    let at = |n: usize| numbers.get(n).copied().context("an interface without counts");
    Ok([at(0)?, at(1)?, at(8)?, at(9)?])
}

/// Returns the fields of an interface in `/proc/net/dev`.
fn of_card<'a>(text: &'a str, card: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find_map(|(name, fields)| (name.trim() == card).then_some(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_ended_keeps_its_count() {
        let threads = [("1".to_owned(), [10.0, 12.0]), ("2".to_owned(), [0.0, 5.0])];
        let wakes = Wakes { pid: std::process::id(), threads: threads.into() };
        assert!((wakes.count_wakes() - 7.0).abs() < 1e-9);
        let mut own = Wakes::from_process(std::process::id()).unwrap();
        std::thread::spawn(|| std::thread::sleep(Duration::from_millis(1))).join().unwrap();
        std::thread::sleep(Duration::from_millis(1));
        own.update_counts().unwrap();
        assert!(own.count_wakes() >= 1.0, "this thread slept");
    }

    #[test]
    fn costs_are_extrapolated_to_days_of_24_hours_and_months_of_30_days() {
        let cost = IdleCost {
            seconds: 100.0,
            bytes: [400.0, 600.0],
            frames: [4.0, 6.0],
            wakes: 20.0,
            cpu_s: 0.5,
        };
        let ClientCost { mb_month, wakes_s, cpu_s_day } = cost.extrapolate();
        assert_eq!(
            [mb_month, wakes_s, cpu_s_day].map(|v| format!("{v:.3}")),
            ["25.920", "0.200", "432.000"]
        );
        assert_eq!(
            cost.describe_counts(),
            "in 100 s: 400 B came in 4 frames, 600 B left in 6; 20 wake-ups, 500.0 ms of CPU"
        );
    }

    #[test]
    fn the_cpu_clock_of_a_process_counts_its_threads() {
        let before = cpu_time(std::process::id()).unwrap();
        let mut sum = 0_u64;
        while cpu_time(std::process::id()).unwrap() < before + Duration::from_millis(5) {
            sum = (0..10_000_u64).fold(sum, |a, b| a.rotate_left(3) ^ b);
        }
        std::hint::black_box(sum);
    }

    #[test]
    fn counters_are_found_by_the_whole_name() {
        let text = "Inter-| Receive\n face |bytes\n  va2: 1 1\n   va: 9 8 0 0 0 0 0 0 7 6\n";
        assert_eq!(of_card(text, "va").unwrap().split_whitespace().next(), Some("9"));
        assert_eq!(of_card(text, "v"), None);
        assert!(read_counters(std::process::id(), "lo").is_ok());
        assert!(read_counters(std::process::id(), "no such").is_err());
    }
}
