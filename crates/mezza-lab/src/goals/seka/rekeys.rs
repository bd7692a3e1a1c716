//! Key renewal under load, and the frames lost by it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::net::Namespaces;
use super::tunnel::{find_responder, run_iperf};
use crate::bench::Bench;
use crate::limit::Limit;
use crate::row::Row;

/// The limit on lost frames.
pub const LIMIT: Limit =
    Limit::at_most("S10", "frames lost in forced rekeys at half capacity", 0.0, "frames");

/// Measures UDP at half of the capacity while keys are renewed continuously.
///
/// A frame counts as lost if our side of the tunnel dropped it, if it was sent and not opened, or
/// if the queue of the interface was full: a sender that waits for keys lets that queue overflow.
/// The losses of iperf3's sockets are reported separately.
///
/// # Errors
/// If iperf3 or a link does not respond.
pub fn measure_row(bench: &mut Bench, net: &Namespaces, gbit: f64) -> Result<Row> {
    let rekeys = bench.profile.pick(10, 1_000, 1_000);
    let rate = format!("{:.0}M", capacity_udp(net, gbit)? * 500.0);
    // Ask the initiator: a responder would have to ask the initiator, which listens every 5 s at
    // most.
    let socket = net.socket_path(1 - find_responder(net, "lkr")?, "lkr");
    // A rekey is requested about every 60 ms.
    let seconds = u64::div_ceil(rekeys, 10);
    let before = Passed::read_counts(net, "lkr")?;
    let end = Instant::now() + Duration::from_secs(seconds);
    let rekeying = std::thread::spawn(move || {
        while Instant::now() < end {
            ask_for_keys(&socket, "lkr")?;
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    });
    let time = seconds.to_string();
    let said = run_iperf(net, "10.2.0.2", &["-u", "-b", &rate, "-t", &time, "-l", "1300"])?;
    let asked: Result<()> =
        rekeying.join().map_err(|_| anyhow::anyhow!("nobody asked for keys"))?;
    asked?;
    std::thread::sleep(Duration::from_millis(300));
    let after = Passed::read_counts(net, "lkr")?;
    let done = after.exchanges - before.exchanges;
    let sent = after.sent - before.sent;
    let lost = after.count_lost() - before.count_lost();
    bench.note_count("mezza", "lost in rekeys", "frames", lost)?;
    let all = said["end"]["sum"]["lost_packets"].as_f64().context("iperf3 counts no losses")?;
    let apart = (all - lost).max(0.0);
    Ok(LIMIT.make_row(lost).with_detail(format!(
        "{done} exchanges during {sent} frames at {rate}bit/s; {apart} more were lost in sockets of iperf3"
    )))
}

/// Asks the daemon behind `socket` for new keys, as `mezza link rekey` does.
fn ask_for_keys(socket: &Path, name: &str) -> Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    writeln!(stream, "{}", serde_json::json!({ "ask": "rekey", "name": name }))?;
    BufReader::new(stream).read_line(&mut String::new())?;
    Ok(())
}

/// Counts of the frames of a link of ours from A to B so far.
struct Passed {
    sent: f64,
    opened: f64,
    /// Frames dropped by the links of both sides, and by the interface queue of A.
    dropped: f64,
    exchanges: f64,
}

impl Passed {
    fn read_counts(net: &Namespaces, name: &str) -> Result<Self> {
        let a = net.read_shown(0, name)?;
        let b = net.read_shown(1, name)?;
        let number = |value: &Value| value.as_f64().context("a link without counts");
        // Drops before sealing at A, and after opening at B.
        let drops = [&a["dropped"]["late"], &a["dropped"]["queue"], &a["dropped"]["fragment"]];
        let drops = drops.into_iter().chain([&b["dropped"]["queue"], &b["dropped"]["fragment"]]);
        let dropped = drops.map(number).sum::<Result<f64>>()?;
        Ok(Self {
            sent: number(&a["traffic"]["tx_frames"])?,
            opened: number(&b["traffic"]["rx_frames"])?,
            dropped: dropped + net.queue_drops(0, name)?,
            exchanges: number(&b["rekeys"])?,
        })
    }

    fn count_lost(&self) -> f64 {
        self.sent - self.opened + self.dropped
    }
}

/// Returns the UDP rate in Gbit/s that arrives without loss; half of it is the load of the rekey
/// test.
fn capacity_udp(net: &Namespaces, most: f64) -> Result<f64> {
    let mut rate = most.min(4.0);
    for _ in 0..8 {
        let text = format!("{:.0}M", rate * 1e3);
        let said = run_iperf(net, "10.2.0.2", &["-u", "-b", &text, "-t", "2", "-l", "1300"])?;
        let sum = &said["end"]["sum"];
        let sent = sum["bits_per_second"].as_f64().unwrap_or_default() / 1e9;
        if sum["lost_packets"].as_f64() == Some(0.0) {
            return Ok(sent.min(rate));
        }
        rate *= 0.6;
    }
    Ok(rate)
}
