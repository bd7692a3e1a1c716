//! `mezza link`: pair two devices, run the tunnel between them, show its state.

mod contact;
mod pair;
mod show;

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use caps::Capability;
use nix::unistd::geteuid;
use serde_json::json;
use tokio::sync::watch;

use super::args::{LinkCommand, LinkPlace, LinkUpArgs};
use super::serve::{block_on, one_thread};
use super::show::Out;
use mezza_host::api::{Exit, Fault};
use mezza_host::clock::Clock;
use mezza_host::process::control::{self, ControlLines};
use mezza_host::process::home::private;
use mezza_host::process::memory;
use mezza_host::process::privileges::{self, Allowed};
use mezza_host::process::stop::until_stopped;
use mezza_servers::tunnel::config::{LinkSettings, StatePlace};
use mezza_servers::tunnel::control::LinkAsk;
use mezza_servers::tunnel::daemon::{FrameThreads, Started, TunnelOptions};
use mezza_servers::tunnel::metrics;
use mezza_servers::tunnel::store::StateFolder;

pub(crate) use contact::{PORT, pair_contact, refuse_place, with_port};
pub(crate) use show::{STATES, list_links};

/// The usual settings file.
const SETTINGS: &str = "/etc/mezza/link.toml";
/// The usual control socket.
const SOCKET: &str = "/run/mezza/link.sock";
/// Capabilities for interfaces and raw sockets.
const CAPABILITIES: &[Capability] = &[Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW];
/// The same capabilities, and those for a state folder of another user, to which Landlock restricts
/// the process.
const OWNER_CAPABILITIES: &[Capability] =
    &[Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW, Capability::CAP_DAC_READ_SEARCH];
/// The command that starts a daemon.
const START: &str = "start it with `mezza link up` or `systemctl start mezza-link`";

/// Runs `mezza link ..`.
///
/// # Errors
/// The fault of the command that runs.
pub(crate) fn run_link(out: Out, place: &LinkPlace, what: &LinkCommand) -> Result<Exit, Fault> {
    let done = match what {
        LinkCommand::Pair(asked) => pair::run_pairing(out, place, asked),
        LinkCommand::PairContact(_) => Err(Fault::bug("this command belongs to the node")),
        LinkCommand::Up(asked) => bring_up(out, place, asked),
        LinkCommand::Show { name, follow } => {
            show::show_links(out, place, name.as_deref(), *follow)
        }
        LinkCommand::Rekey { name } => rekey_link(out, place, name),
        LinkCommand::Forget { name, yes } => forget_link(out, place, name, *yes),
    };
    done.map_err(|fault| name_way(fault, place))
}

/// Replaces the next step of a refused folder: links have no `--home`, and their usual folder is root's.
fn name_way(fault: Fault, place: &LinkPlace) -> Fault {
    let is_refused = matches!(fault.code, Exit::Denied | Exit::CannotWrite);
    let next = if is_refused && place.state.is_none() && !geteuid().is_root() {
        "run it as root, or start the unit: `systemctl start mezza-link`".to_owned()
    } else {
        fault.next.replace("--home DIR", "--state DIR")
    };
    Fault { next, ..fault }
}

/// The settings, and where state and socket are.
pub(super) struct Found {
    pub settings: LinkSettings,
    pub state: StatePlace,
    pub socket: PathBuf,
}

/// Listeners of a command.
pub(super) struct Serving {
    /// The control socket.
    pub socket: bool,
    /// Counts for operators.
    pub metrics: Option<SocketAddr>,
}

impl Found {
    pub(super) fn from_place(place: &LinkPlace) -> Result<Self, Fault> {
        let path = place.config.as_deref().unwrap_or(Path::new(SETTINGS));
        let settings = LinkSettings::load(path, place.config.is_some())?;
        let state = StatePlace::from_settings(place.state.as_deref(), &settings);
        // With `--state`, the socket is in the state folder.
        let own = place.state.as_ref().map(|folder| folder.join("link.sock"));
        let socket = settings.socket.clone().or(own).unwrap_or_else(|| PathBuf::from(SOCKET));
        Ok(Self { settings, state, socket })
    }

    /// Continues as the owner of the state folder (SEKA-93).
    pub(super) fn become_owner(&self) -> Result<bool, Fault> {
        match &self.state {
            StatePlace::Folder(root) => privileges::become_owner(root, CAPABILITIES),
            StatePlace::Memory => Ok(false),
        }
    }

    /// Drops the rights that the daemon does not need, before it has threads. Folders are made
    /// first.
    pub(super) fn drop_rights(&self, serving: &Serving) -> Result<(), Fault> {
        let is_owner = self.become_owner()?;
        let mut folders = Vec::new();
        if let StatePlace::Folder(root) = &self.state {
            folders.push(StateFolder::make_folder(root)?);
        }
        let parent =
            self.socket.parent().filter(|path| serving.socket && !path.as_os_str().is_empty());
        if let Some(folder) = parent {
            private::make_folder(folder)?;
            folders.push(folder.to_path_buf());
        }
        privileges::keep_only(&Allowed {
            capabilities: if is_owner { OWNER_CAPABILITIES } else { CAPABILITIES },
            folders,
            // `/sys` has the MTU of interfaces; the process reads its own memory and threads in
            // `/proc`.
            read: &["/sys", "/proc"],
            devices: &["/dev/net/tun"],
            port: serving.metrics.map(|address| address.port()),
            connects: false,
        })
    }

    pub(super) fn into_options(self, names: &[String], serve: bool) -> TunnelOptions {
        TunnelOptions {
            state: self.state,
            settings: self.settings,
            names: names.to_vec(),
            socket: serve.then_some(self.socket),
            serve,
            unbounded: false,
            clock: Clock::system(),
        }
    }
}

/// Sends a request to the running daemon.
pub(super) fn ask_daemon(place: &LinkPlace, asked: &LinkAsk) -> Result<ControlLines, Fault> {
    control::ask_server(&Found::from_place(place)?.socket, asked, START)
}

fn bring_up(out: Out, place: &LinkPlace, asked: &LinkUpArgs) -> Result<Exit, Fault> {
    memory::require_closed()?;
    let found = Found::from_place(place)?;
    found.drop_rights(&Serving { socket: true, metrics: asked.metrics })?;
    let options = found.into_options(&asked.names, true);
    block_on(one_thread(), async {
        memory::log_refusals();
        let started = Started::open(options, FrameThreads::for_product())?;
        for damaged in started.daemon.damaged_peers() {
            out.print_aside(&format!(
                "peers/{}: both slots are damaged, it is quarantined; restore the file only if it \
                 is the newest copy, else run `mezza link forget NAME` and pair again",
                damaged.file
            ));
        }
        let links = started.daemon.links();
        for link in &links {
            let state = link.aside.as_ref().map_or(String::new(), |aside| {
                format!("   waits: {}; {}", aside.reason, aside.next)
            });
            out.print_either(link, format!("link     {}   on {}{state}", link.name, link.on));
        }
        if links.is_empty() {
            out.print_line("link     none yet; pair one: `mezza link pair IF`");
        }
        if asked.check {
            return Ok(Exit::Done);
        }
        if let Some(address) = asked.metrics {
            metrics::serve_counts(address, started.asks.clone()).await?;
        }
        let (stop, stopped) = watch::channel(false);
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

/// Runs `mezza link up` with these data threads and without a limit on exchanges, for the lab
/// (SEKA-73).
///
/// # Errors
/// The refusals of `mezza link up`.
pub fn up_with(state: &Path, config: &Path, threads: FrameThreads) -> Result<Exit, Fault> {
    let place = LinkPlace { state: Some(state.into()), config: Some(config.into()) };
    let found = Found::from_place(&place)?;
    found.drop_rights(&Serving { socket: true, metrics: None })?;
    let options = TunnelOptions { unbounded: true, ..found.into_options(&[], true) };
    block_on(one_thread(), async {
        let (_stop, stopped) = watch::channel(false);
        Started::open(options, threads)?.run(stopped).await
    })
}

fn rekey_link(out: Out, place: &LinkPlace, name: &str) -> Result<Exit, Fault> {
    let asked = LinkAsk::Rekey { name: name.to_owned() };
    let mut took = None;
    for line in ask_daemon(place, &asked)? {
        let line = line?;
        took = line.get("exchange_ms").and_then(serde_json::Value::as_u64).or(took);
    }
    let ms = took.ok_or_else(|| {
        let text = format!("the daemon ended before {name} had new keys");
        Fault::new(Exit::Unreachable, text, START)
    })?;
    let line = json!({ "event": "accepted", "name": name, "exchange_ms": ms });
    out.print_either(&line, format!("{name} has new keys; the exchange took {ms} ms"));
    Ok(Exit::Done)
}

fn forget_link(out: Out, place: &LinkPlace, name: &str, yes: bool) -> Result<Exit, Fault> {
    if !yes && !ask_yes(&format!("forget {name}? The pairing cannot be restored. [y/N] ")) {
        return Ok(Exit::No);
    }
    let asked = LinkAsk::Forget { name: name.to_owned() };
    match ask_daemon(place, &asked) {
        Ok(mut lines) => lines.try_for_each(|line| line.map(|_| ()))?,
        // No daemon is running, so open the state folder directly.
        Err(fault) if fault.code == Exit::Unreachable && has_folder(place)? => {
            forget_alone(place, name)?;
        }
        Err(fault) => return Err(fault),
    }
    out.print_either(
        &json!({ "event": "forgotten", "name": name }),
        format!("{name} is forgotten"),
    );
    Ok(Exit::Done)
}

/// Returns true if a state folder can be used without a daemon. State in memory exists only in the
/// daemon.
pub(super) fn has_folder(place: &LinkPlace) -> Result<bool, Fault> {
    Ok(Found::from_place(place)?.state != StatePlace::Memory)
}

fn forget_alone(place: &LinkPlace, name: &str) -> Result<(), Fault> {
    let found = Found::from_place(place)?;
    found.become_owner()?;
    let options = found.into_options(&[], false);
    block_on(one_thread(), async {
        let mut started = Started::open(options, FrameThreads::for_product())?;
        started.daemon.forget_link(name).map(|()| Exit::Done)
    })
    .map(|_| ())
}

/// Asks a question on the terminal. Returns true for yes, false for any other input.
pub(super) fn ask_yes(question: &str) -> bool {
    let _ = write!(std::io::stderr().lock(), "{question}");
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    read.is_ok() && matches!(line.trim(), "y" | "Y" | "yes")
}
