//! `mezza mesh status|peers|clock`: the state of a running node.

use serde_json::Value;

use super::super::{CliContext, show};
use super::ask_node;
use mezza_host::api::{Exit, Fault, words};
use mezza_servers::mesh::control::MeshAsk;
use mezza_servers::mesh::links::RADIO;

/// A neighbour without frames for this time is not counted as present, ms.
const SILENT_MS: i64 = 10_000;
/// Ticks of 30 s in a day.
const TICKS_PER_DAY: u64 = 2_880;

/// `mezza mesh status`
pub(super) fn show_status(context: &CliContext) -> Result<Exit, Fault> {
    let status = ask_node(context, &MeshAsk::Status)?;
    let out = context.out;
    let n = |key: &str| read_number(&status, key);
    out.print_value(&status);
    let closed = if status["closed"] == true { ", closed" } else { "" };
    out.print_line(format!("network  {}{closed}", read_word(&status, "network")));
    for link in status["links"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let stays = "; your address on it stays the same when the name changes";
        out.print_line(format!(
            "link     {link}{}",
            if link.starts_with(RADIO) { "" } else { stays }
        ));
    }
    if status["lacks_streams"] == true {
        out.print_line(
            "streams  another program has the port: messages above a kilobyte cross on streams that this node \
             opens, and none comes to it",
        );
    }
    out.print_line(clock_line(&status));
    if status["paper_mode"] == true {
        out.print_line("mode     paper: a few liars can take this clock");
    }
    let around = words::format_count(n("around").unsigned_abs(), "neighbour", "neighbours");
    out.print_line(format!("heard    {around}; own name {} s old", n("name_age_s")));
    for name in status["two_clocks"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        out.print_line(format!(
            "twice    {name} is heard on two links with two clocks: one of them is not its own; the first counts"
        ));
    }
    out.print_line(format!("cells    {} live, {} bytes", n("live"), n("store_bytes")));
    out.print_line(format!(
        "carried  {} of these for hours, {} bytes, on the disk too",
        n("carried"),
        n("carried_bytes")
    ));
    out.print_line(format!("bytes    {} in, {} out", n("bytes_in"), n("bytes_out")));
    warn_of_clock(context, &status)
}

/// `mezza mesh peers`
pub(super) fn show_peers(context: &CliContext) -> Result<Exit, Fault> {
    let status = ask_node(context, &MeshAsk::Status)?;
    let out = context.out;
    out.print_value(&status["neighbours"]);
    let peers = status["neighbours"].as_array().map_or(&[][..], Vec::as_slice);
    if peers.is_empty() {
        out.print_line("nobody is heard");
    }
    for peer in peers {
        let n = |key: &str| read_number(peer, key);
        let silent = if n("silent_ms") > SILENT_MS { "silent: " } else { "" };
        out.print_line(format!(
            "{}   {silent}heard {:.1} s ago   {} cells, gave {}   clock {:+.1} s",
            read_word(peer, "name"),
            to_seconds(n("silent_ms")),
            n("live"),
            n("gave"),
            to_seconds(n("differs_ms")),
        ));
    }
    Ok(Exit::Done)
}

/// `mezza mesh clock`
pub(super) fn show_clock(context: &CliContext, status: &Value) -> Result<Exit, Fault> {
    context.out.print_value(status);
    context.out.print_line(clock_line(status));
    warn_of_clock(context, status)
}

/// Ends with 78 if the clocks of neighbours contradict the node's clock.
fn warn_of_clock(context: &CliContext, status: &Value) -> Result<Exit, Fault> {
    if let Some(day) = status["other_day"].as_u64() {
        return Err(other_date(status, day));
    }
    let Some(elsewhere) = status["elsewhere_ms"].as_i64() else { return Ok(Exit::Done) };
    let around = words::format_count(
        read_number(status, "around").unsigned_abs(),
        "neighbour",
        "neighbours",
    );
    let side = if elsewhere > 0 { "behind" } else { "ahead of" };
    let text = format!(
        "your clock is {:.0} s {side} the clocks of your {around}",
        to_seconds(elsewhere.abs())
    );
    let _ = context;
    Err(Fault::new(Exit::Config, text, "set it, or `mezza mesh clock --trust-neighbours`"))
}

/// Returns the fault for devices of this network with another date: they are no neighbours
/// (MESH-69).
fn other_date(status: &Value, day: u64) -> Fault {
    let count = read_number(status, "other_devices").unsigned_abs();
    let says = if count == 1 { "says" } else { "say" };
    let devices = words::format_count(count, "device", "devices");
    let theirs = show::format_day(day);
    let ours = show::format_day(read_number(status, "cur").unsigned_abs() / TICKS_PER_DAY);
    let text =
        format!("{devices} of this network {says} that it is {theirs}; your clock says {ours}");
    Fault::new(Exit::Config, text, "set the clock of the one that is wrong")
}

fn clock_line(status: &Value) -> String {
    let cur = read_number(status, "cur");
    let trusted = status["trusted_ms"].as_i64().map_or_else(String::new, |ms| {
        format!("; you trusted your neighbours: {:+.1} s, until your clock is set", to_seconds(ms))
    });
    format!(
        "clock    {} by the mesh, {}, own clock {} (within {:.1} s), moved by {:+.1} s{trusted}",
        show::format_time(cur.unsigned_abs() * 30_000),
        read_word(status, "state"),
        read_word(status, "grade"),
        to_seconds(read_number(status, "within_ms")),
        to_seconds(read_number(status, "moved_ms")),
    )
}

fn read_number(value: &Value, key: &str) -> i64 {
    value[key].as_i64().unwrap_or(0)
}

fn read_word<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("?")
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn to_seconds(ms: i64) -> f64 {
    ms as f64 / 1_000.0
}
