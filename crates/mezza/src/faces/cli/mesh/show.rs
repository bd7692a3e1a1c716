//! `mezza mesh status|peers|clock`: what a running node says of itself.

use serde_json::Value;

use super::super::{CliContext, show};
use super::ask;
use mezza_host::api::{Exit, Fault, words};
use mezza_servers::mesh::control::MeshAsk;
use mezza_servers::mesh::links::RADIO;

/// A neighbour that was not heard for so long is not around, ms.
const SILENT_MS: i64 = 10_000;
/// Ticks of 30 s in a day.
const TICKS_PER_DAY: u64 = 2_880;

/// `mezza mesh status`
pub(super) fn status(context: &CliContext) -> Result<Exit, Fault> {
    let status = ask(context, &MeshAsk::Status)?;
    let out = context.out;
    let n = |key: &str| number(&status, key);
    out.value(&status);
    let closed = if status["closed"] == true { ", closed" } else { "" };
    out.line(format!("network  {}{closed}", word(&status, "network")));
    for link in status["links"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let stays = "; your address on it stays the same when the name changes";
        out.line(format!("link     {link}{}", if link.starts_with(RADIO) { "" } else { stays }));
    }
    if status["lacks_streams"] == true {
        out.line(
            "streams  another program has the port: messages above a kilobyte cross on streams that this node \
             opens, and none comes to it",
        );
    }
    out.line(clock_line(&status));
    if status["paper_mode"] == true {
        out.line("mode     paper: a few liars can take this clock");
    }
    let around = words::counted(n("around").unsigned_abs(), "neighbour", "neighbours");
    out.line(format!("heard    {around}; own name {} s old", n("name_age_s")));
    for name in status["two_clocks"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        out.line(format!(
            "twice    {name} is heard on two links with two clocks: one of them is not its own; the first counts"
        ));
    }
    out.line(format!("cells    {} live, {} bytes", n("live"), n("store_bytes")));
    out.line(format!("bytes    {} in, {} out", n("bytes_in"), n("bytes_out")));
    warn(context, &status)
}

/// `mezza mesh peers`
pub(super) fn peers(context: &CliContext) -> Result<Exit, Fault> {
    let status = ask(context, &MeshAsk::Status)?;
    let out = context.out;
    out.value(&status["neighbours"]);
    let peers = status["neighbours"].as_array().map_or(&[][..], Vec::as_slice);
    if peers.is_empty() {
        out.line("nobody is heard");
    }
    for peer in peers {
        let n = |key: &str| number(peer, key);
        let silent = if n("silent_ms") > SILENT_MS { "silent: " } else { "" };
        out.line(format!(
            "{}   {silent}heard {:.1} s ago   {} cells, gave {}   clock {:+.1} s",
            word(peer, "name"),
            seconds(n("silent_ms")),
            n("live"),
            n("gave"),
            seconds(n("differs_ms")),
        ));
    }
    Ok(Exit::Done)
}

/// `mezza mesh clock`
pub(super) fn clock(context: &CliContext, status: &Value) -> Result<Exit, Fault> {
    context.out.value(status);
    context.out.line(clock_line(status));
    warn(context, status)
}

/// A clock that the clocks around contradict ends the command with 78.
fn warn(context: &CliContext, status: &Value) -> Result<Exit, Fault> {
    if let Some(day) = status["other_day"].as_u64() {
        return Err(other_date(status, day));
    }
    let Some(elsewhere) = status["elsewhere_ms"].as_i64() else { return Ok(Exit::Done) };
    let around = words::counted(number(status, "around").unsigned_abs(), "neighbour", "neighbours");
    let side = if elsewhere > 0 { "behind" } else { "ahead of" };
    let text = format!(
        "your clock is {:.0} s {side} the clocks of your {around}",
        seconds(elsewhere.abs())
    );
    let _ = context;
    Err(Fault::new(Exit::Config, text, "set it, or `mezza mesh clock --trust-neighbours`"))
}

/// Devices of this network that live on another date are no neighbours (MESH-69).
fn other_date(status: &Value, day: u64) -> Fault {
    let count = number(status, "other_devices").unsigned_abs();
    let says = if count == 1 { "says" } else { "say" };
    let devices = words::counted(count, "device", "devices");
    let theirs = show::day(day);
    let ours = show::day(number(status, "cur").unsigned_abs() / TICKS_PER_DAY);
    let text =
        format!("{devices} of this network {says} that it is {theirs}; your clock says {ours}");
    Fault::new(Exit::Config, text, "set the clock of the one that is wrong")
}

fn clock_line(status: &Value) -> String {
    let cur = number(status, "cur");
    let trusted = status["trusted_ms"].as_i64().map_or_else(String::new, |ms| {
        format!("; you trusted your neighbours: {:+.1} s, until your clock is set", seconds(ms))
    });
    format!(
        "clock    {} by the mesh, {}, own clock {} (within {:.1} s), moved by {:+.1} s{trusted}",
        show::time(cur.unsigned_abs() * 30_000),
        word(status, "state"),
        word(status, "grade"),
        seconds(number(status, "within_ms")),
        seconds(number(status, "moved_ms")),
    )
}

fn number(value: &Value, key: &str) -> i64 {
    value[key].as_i64().unwrap_or(0)
}

fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("?")
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1_000.0
}
