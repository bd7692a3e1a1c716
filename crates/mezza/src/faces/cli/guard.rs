//! `mezza guard`: a reverse firewall between a device and the network.

mod check;
mod dest;
mod join;
mod show;
mod watch;

use std::path::PathBuf;

use mezza_core::Secret;
use mezza_guard::coin::{CoinPurpose, SlotName};
use mezza_guard::guard::Input;
use serde_json::json;
use tokio::sync::watch as signal;

use super::CliContext;
use super::args::{
    GuardCommand, GuardPairArgs, GuardPlace, GuardRunArgs, PurposeName, ResetSlotArgs,
};
use super::serve::{block_on, read_settings, two_threads};
use super::show::{Out, ask_person, format_path};
use mezza_host::api::{Exit, Fault};
use mezza_host::process::control;
use mezza_host::process::home::private;
use mezza_host::process::memory;
use mezza_host::process::privileges::{self, Allowed};
use mezza_host::process::rng::OsRng;
use mezza_host::process::stop::until_stopped;
use mezza_servers::guard::control::GuardAsk;
use mezza_servers::guard::folder::GuardFolder;
use mezza_servers::guard::peers::{ClientEntry, format_id};
use mezza_servers::guard::server::{StartedGuard, change_alone};
use mezza_servers::guard::short_id;

/// Files that the resolver of names reads.
const RESOLVER_FILES: &[&str] =
    &["/etc", "/usr", "/lib", "/lib64", "/run/systemd/resolve", "/proc"];
/// Bytes of a file with a pairing code, at most.
const CODE_BYTES_MAX: usize = 128;
/// The command that starts a guard.
const START: &str = "start it with `mezza guard run`";

/// Runs `mezza guard ..`.
///
/// # Errors
/// The fault of the command that runs.
pub(crate) fn run_guard(
    context: &CliContext,
    place: &GuardPlace,
    what: &GuardCommand,
) -> Result<Exit, Fault> {
    let out = context.out;
    let folder = GuardFolder::at(&folder_of(context, place));
    match what {
        GuardCommand::Init => init_guard(out, &folder),
        GuardCommand::Pair(asked) => pair_client(out, &folder, asked),
        GuardCommand::Run(asked) => {
            read_settings(context, &[])?;
            serve_guard(out, folder, asked)
        }
        GuardCommand::Dest { what } => dest::run_dest(out, &folder, what),
        GuardCommand::Audit => show::show_audit(out, &folder),
        GuardCommand::Status => show::show_status(out, &folder),
        GuardCommand::ResetSlot(asked) => reset_slot(out, &folder, asked),
        GuardCommand::Join(asked) => join::join_guard(context, asked),
        GuardCommand::Leave => join::leave_guard(context),
        GuardCommand::Check(asked) => Ok(check::check_routes(out, asked)),
        GuardCommand::Watch(asked) => watch::watch_guard(out, asked),
    }
}

fn folder_of(context: &CliContext, place: &GuardPlace) -> PathBuf {
    place.dir.clone().unwrap_or_else(|| context.home.root().join("guard"))
}

fn init_guard(out: Out, folder: &GuardFolder) -> Result<Exit, Fault> {
    if !folder.make_files(&mut OsRng)? {
        let text = format!("there is a guard in {} already", folder.path().display());
        return Err(Fault::new(Exit::Usage, text, "use it, or name another folder with --dir"));
    }
    let path = format_path(folder.path());
    out.print_either(
        &json!({ "event": "made", "folder": format_path(folder.path()) }),
        format!(
            "guard    {path}\nnext: `mezza guard pair`, and `mezza guard dest add NAME HOST:PORT`"
        ),
    );
    Ok(Exit::Done)
}

fn pair_client(out: Out, folder: &GuardFolder, asked: &GuardPairArgs) -> Result<Exit, Fault> {
    // A file that exists is refused before a key is made.
    if let Some(path) = asked.code_file.as_ref().filter(|path| path.exists()) {
        let text = format!("{} exists already", path.display());
        return Err(Fault::new(Exit::CannotWrite, text, "name a new file"));
    }
    folder.read_peers()?;
    let pairing = folder.store_pairing(&Secret::random(&mut OsRng))?;
    let client = pairing.client_id();
    let entry = ClientEntry { addr: asked.addr, inbound: asked.inbound, mode: asked.mode };
    folder.change_peers(|peers| peers.put_client(client, entry))?;
    let is_running = reload_running(folder)?;
    let code = pairing.pairing_code();
    let text = std::str::from_utf8(code.expose()).map_err(|_| Fault::bug("a code of letters"))?;
    let id = format_id(client);
    if let Some(path) = &asked.code_file {
        private::create(path, text.as_bytes())?;
        let value = json!({ "event": "paired", "client": id });
        out.print_either(&value, format!("client   {}", short_id(client)));
    } else {
        out.print_value(&json!({ "event": "paired", "client": id, "code": text }));
        out.print_foreign(format!("client   {}", short_id(client)));
        // Shown once: the guard does not print it again.
        out.print_foreign(text);
    }
    out.print_aside(
        "enter the code on the device that dials through this guard, once: `mezza guard join HOST` there asks for \
         it. Whoever reads the code can pose as the guard",
    );
    if asked.inbound.is_some() && is_running {
        out.print_aside("the inbound address is served from the next `mezza guard run` on");
    }
    Ok(Exit::Done)
}

fn serve_guard(out: Out, folder: GuardFolder, asked: &GuardRunArgs) -> Result<Exit, Fault> {
    memory::require_closed()?;
    let mut config = folder.read_settings()?;
    config.listen = asked.listen.unwrap_or(config.listen);
    config.policy = asked.policy.unwrap_or(config.policy);
    config.tick_ms = asked.tick.unwrap_or(config.tick_ms);
    let path = folder.path().to_path_buf();
    let policy = config.policy;
    let tick_ms = config.tick_ms;
    let started = StartedGuard::open(folder, config)?;
    // Listeners exist already, so no further port is needed.
    privileges::keep_only(&Allowed {
        folders: vec![path],
        read: RESOLVER_FILES,
        connects: true,
        ..Allowed::default()
    })?;
    let address = started.address;
    let value = json!({ "event": "guard", "address": address, "policy": policy });
    block_on(two_threads(), async {
        memory::log_refusals();
        out.print_either(
            &value,
            format!("guard    {address}   {policy:?}, tick {tick_ms} ms").to_lowercase(),
        );
        if asked.check {
            return Ok(Exit::Done);
        }
        let (stop, stopped) = signal::channel(false);
        let running = started.run(stopped);
        tokio::pin!(running);
        tokio::select! {
            ended = &mut running => ended,
            signal = until_stopped(stop.subscribe()) => {
                signal?;
                let _ = stop.send(true);
                running.await
            }
        }
    })
}

fn reset_slot(out: Out, folder: &GuardFolder, asked: &ResetSlotArgs) -> Result<Exit, Fault> {
    let mut peers = folder.read_peers()?;
    let client = peers.find_client(&asked.client)?;
    // The lanes of inbound connections have numbers that no list contains.
    let dest = match asked.dest.parse() {
        Ok(number) => number,
        Err(_) => peers.find_dest(&asked.dest)?.number,
    };
    let question = format!(
        "reset the slot of client {} and {}? Each reset lets a tampered device choose once more; reset only \
         if the device lost its state.",
        short_id(client),
        dest
    );
    if !asked.yes {
        match ask_person(out, &question) {
            Some(true) => {}
            Some(false) => return Ok(Exit::No),
            None => {
                let text = "a reset is asked at a terminal";
                return Err(Fault::new(Exit::Usage, text, "add --yes"));
            }
        }
    }
    let purpose = match asked.purpose {
        PurposeName::Dialling => CoinPurpose::LinkDialling,
        PurposeName::Answering => CoinPurpose::LinkAnswering,
    };
    let request =
        GuardAsk::ResetSlot { client: format_id(client), dest, purpose: purpose.wire_byte() };
    let alone = Input::ResetSlot(SlotName { client, purpose, dest });
    change_guard(folder, &request, [alone])?;
    let value = json!({ "event": "reset", "client": format_id(client), "dest": dest });
    out.print_either(&value, format!("the slot of {} and {dest} is reset", short_id(client)));
    Ok(Exit::Done)
}

/// Sends a request to the running guard, or changes its ledger directly if none runs.
fn change_guard(
    folder: &GuardFolder,
    request: &GuardAsk,
    alone: impl IntoIterator<Item = Input>,
) -> Result<(), Fault> {
    match control::ask_server(&folder.socket_path(), request, START) {
        Ok(mut lines) => lines.try_for_each(|line| line.map(drop)),
        // No guard is running, so the ledger is free.
        Err(fault) if fault.code == Exit::Unreachable => change_alone(folder, alone),
        Err(fault) => Err(fault),
    }
}

/// Lets a running guard read the lists again. Returns false if none runs.
fn reload_running(folder: &GuardFolder) -> Result<bool, Fault> {
    match control::ask_server(&folder.socket_path(), &GuardAsk::Reload, START) {
        Ok(mut lines) => lines.try_for_each(|line| line.map(drop)).map(|()| true),
        Err(fault) if fault.code == Exit::Unreachable => Ok(false),
        Err(fault) => Err(fault),
    }
}
