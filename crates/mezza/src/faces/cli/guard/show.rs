//! `mezza guard status` and `mezza guard audit`.

use super::START;
use crate::faces::cli::show::{Out, clean_text};
use mezza_host::api::{Exit, Fault};
use mezza_servers::guard::audit::{AuditJson, AuditRowJson, compute_audit};
use mezza_servers::guard::control::{GuardStatusJson, read_status};
use mezza_servers::guard::folder::GuardFolder;

/// `mezza guard status`. Without a running guard the files are read: a guard that does not load is
/// closed, and the command says why.
///
/// # Errors
/// The fault that keeps the guard closed.
pub(super) fn show_status(out: Out, folder: &GuardFolder) -> Result<Exit, Fault> {
    let status = read_status(folder, START)?;
    out.print_value(&status);
    for line in describe_status(&status) {
        out.print_line(line);
    }
    Ok(Exit::Done)
}

fn describe_status(status: &GuardStatusJson) -> Vec<String> {
    let state = if status.running {
        format!("runs, {} sessions", status.sessions)
    } else {
        format!("does not run, so nothing passes; {START}")
    };
    let policy = format!("{:?}", status.policy).to_lowercase();
    let mut lines = vec![
        format!("guard    {state}   {policy}"),
        format!(
            "ledger   {} handshakes, {} refused, {} resets{}",
            status.handshakes,
            status.refused,
            status.resets,
            if status.ledger_fails { "   CANNOT BE WRITTEN: handshakes fail" } else { "" }
        ),
    ];
    for client in &status.clients {
        let id = client.id.get(..8).unwrap_or_default();
        lines.push(format!("client   {id}   {} refused in all", client.refused_ever));
    }
    for dest in &status.destinations {
        let blocked = if dest.blocked { "   blocked by you" } else { "" };
        lines.push(format!("dest     {} {}{blocked}", dest.number, clean_text(&dest.name)));
        for refusals in &dest.refusals {
            let blocked = if refusals.blocked { ", blocked" } else { "" };
            lines.push(format!(
                "         {}: {} refused in 24 h{blocked}",
                refusals.client, refusals.count
            ));
        }
    }
    for slot in &status.open_slots {
        lines.push(format!(
            "slot     {} and {}: number {} waits for its key",
            slot.client, slot.dest, slot.index
        ));
    }
    lines.extend(status.events.iter().map(|event| format!("event    {}", clean_text(event))));
    lines
}

/// `mezza guard audit`
///
/// # Errors
/// The fault of a file that does not load.
pub(super) fn show_audit(out: Out, folder: &GuardFolder) -> Result<Exit, Fault> {
    let audit =
        compute_audit(&folder.read_settings()?, &folder.read_peers()?, &folder.load_ledger()?)?;
    out.print_value(&audit);
    for line in describe_audit(&audit) {
        out.print_line(line);
    }
    Ok(Exit::Done)
}

fn describe_audit(audit: &AuditJson) -> Vec<String> {
    let mut lines = vec![
        format!(
            "link handshake, SEKA with coins: level {} of 3 on the scale of hardware wallets",
            audit.level
        ),
        format!(
            "{:<4} {:>3}  {:<26} {:>9} {:>9}",
            "", "at", "bits, if the handshake is", "accepted", "refused"
        ),
    ];
    lines.extend(audit.rows.iter().map(describe_row));
    for dest in &audit.destinations {
        let names = if dest.pinned { "names pinned" } else { "names learned" };
        lines.push(format!(
            "destination {} {}: level {}, {names}",
            dest.number,
            clean_text(&dest.name),
            dest.level
        ));
    }
    lines.push("not seen by this guard, and not sanitised:".into());
    let parts = audit.unguarded.iter();
    lines.extend(
        parts.map(|part| format!("  {:<20} level {}  {}", part.part, part.level, part.freedom)),
    );
    lines
}

fn describe_row(row: &AuditRowJson) -> String {
    let bits = |bits: Option<f64>| match bits {
        None => "free".to_owned(),
        Some(bits) if bits.fract() == 0.0 => format!("{bits:.0}"),
        Some(bits) => format!("{bits:.2}"),
    };
    let at = if row.frame.is_empty() { String::new() } else { row.at.to_string() };
    let is_closed = row.accepted == Some(0.0) && row.refused == Some(0.0);
    let attack = if is_closed {
        format!("attack {} fails", row.attack)
    } else {
        format!("attack {}; closed by: {}", row.attack, row.closed_by)
    };
    format!(
        "{:<4} {at:>3}  {:<26} {:>9} {:>9}  {attack}",
        row.frame,
        row.what,
        bits(row.accepted),
        bits(row.refused)
    )
}
