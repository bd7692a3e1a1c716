//! `mezza guard dest`.

use mezza_guard::guard::Input;
use serde_json::json;

use super::{change_guard, reload_running};
use crate::faces::cli::args::{DestAddArgs, GuardDestCommand};
use crate::faces::cli::show::Out;
use mezza_host::api::{Exit, Fault};
use mezza_servers::guard::control::GuardAsk;
use mezza_servers::guard::folder::GuardFolder;
use mezza_servers::guard::peers::{DestEntry, PinEntry};

/// Runs `mezza guard dest ..`.
///
/// # Errors
/// The fault of the command that runs.
pub(super) fn run_dest(
    out: Out,
    folder: &GuardFolder,
    what: &GuardDestCommand,
) -> Result<Exit, Fault> {
    match what {
        GuardDestCommand::Add(asked) => add_dest(out, folder, asked),
        GuardDestCommand::List => list_dests(out, folder),
        GuardDestCommand::Block { dest } => set_block(out, folder, dest, true),
        GuardDestCommand::Unblock { dest } => set_block(out, folder, dest, false),
    }
}

fn add_dest(out: Out, folder: &GuardFolder, asked: &DestAddArgs) -> Result<Exit, Fault> {
    let pins = asked.ids.as_deref().zip(asked.link).map(|(ids, link)| {
        // Without a comma the second name is empty, which the list refuses.
        let (own, peer) = ids.split_once(',').unwrap_or((ids, ""));
        PinEntry { own: own.to_owned(), peer: peer.to_owned(), link }
    });
    let entry = DestEntry {
        number: 0,
        host: asked.target.host.clone(),
        port: asked.target.port,
        blocked: false,
        counter: asked.counter,
        pins,
    };
    let number = folder.change_peers(|peers| peers.add_dest(&asked.name, entry))?;
    reload_running(folder)?;
    let value = json!({ "event": "added", "name": asked.name, "number": number });
    out.print_either(&value, format!("{} is destination {number}", asked.name));
    Ok(Exit::Done)
}

fn list_dests(out: Out, folder: &GuardFolder) -> Result<Exit, Fault> {
    let peers = folder.read_peers()?;
    for (name, dest) in &peers.dest {
        let DestEntry { number, host, port, blocked, pins, .. } = dest;
        out.print_value(&json!({
            "name": name, "number": number, "host": host, "port": port, "blocked": blocked,
            "pinned": pins.is_some(),
        }));
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let names = if pins.is_some() { "names pinned" } else { "names learned" };
        let state = if *blocked { "   blocked" } else { "" };
        out.print_foreign(format!("{number:<4} {name:<16} {host}:{port}   {names}{state}"));
    }
    if peers.dest.is_empty() {
        out.print_line("no destination yet; add one: `mezza guard dest add NAME HOST:PORT`");
    }
    Ok(Exit::Done)
}

fn set_block(out: Out, folder: &GuardFolder, which: &str, blocked: bool) -> Result<Exit, Fault> {
    let number = folder.change_peers(|peers| {
        let dest = peers.find_dest(which)?;
        dest.blocked = blocked;
        Ok(dest.number)
    })?;
    reload_running(folder)?;
    if !blocked {
        // The block after 20 refused handshakes is part of the ledger (GUARD-35).
        let clients: Vec<_> = folder.read_peers()?.client_ids().collect();
        let inputs = clients.into_iter().map(|client| Input::Unblock(client, number));
        change_guard(folder, &GuardAsk::Unblock { dest: number }, inputs)?;
    }
    let event = if blocked { "blocked" } else { "unblocked" };
    let value = json!({ "event": event, "number": number });
    out.print_either(&value, format!("destination {number} is {event}"));
    Ok(Exit::Done)
}
