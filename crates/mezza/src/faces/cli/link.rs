//! `mezza link`: pair two devices, run the tunnel between them, look at it.

mod pair;
mod show;

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use caps::Capability;
use serde_json::json;
use tokio::sync::watch;

use super::args::{LinkCommand, LinkPlace, LinkUpArgs};
use super::serve::{block_on, two_threads};
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

/// The usual settings file.
const SETTINGS: &str = "/etc/mezza/link.toml";
/// The usual control socket.
const SOCKET: &str = "/run/mezza/link.sock";
/// How a daemon is started.
const START: &str = "start it with `mezza link up` or `systemctl start mezza-link`";

/// `mezza link ..`
///
/// # Errors
/// What the command refuses; see each of them.
pub(crate) fn link(out: Out, place: &LinkPlace, what: &LinkCommand) -> Result<Exit, Fault> {
    match what {
        LinkCommand::Pair(asked) => pair::pair(out, place, asked),
        LinkCommand::Up(asked) => up(out, place, asked),
        LinkCommand::Show { name, follow } => show::show(out, place, name.as_deref(), *follow),
        LinkCommand::Rekey { name } => rekey(out, place, name),
        LinkCommand::Forget { name, yes } => forget(out, place, name, *yes),
    }
}

/// The settings, and where state and socket are.
pub(super) struct Found {
    pub settings: LinkSettings,
    pub state: StatePlace,
    pub socket: PathBuf,
}

impl Found {
    pub(super) fn of(place: &LinkPlace) -> Result<Self, Fault> {
        let path = place.config.as_deref().unwrap_or(Path::new(SETTINGS));
        let settings = LinkSettings::load(path, place.config.is_some())?;
        let state = StatePlace::of(place.state.as_deref(), &settings);
        // A state folder of one's own has its socket in it.
        let own = place.state.as_ref().map(|folder| folder.join("link.sock"));
        let socket = settings.socket.clone().or(own).unwrap_or_else(|| PathBuf::from(SOCKET));
        Ok(Self { settings, state, socket })
    }

    /// Gives up what the daemon does not need, before it has threads. Folders are made while it may.
    fn confine(&self, metrics: Option<SocketAddr>) -> Result<(), Fault> {
        let mut folders = Vec::new();
        if let StatePlace::Folder(root) = &self.state {
            folders.push(StateFolder::make(root)?);
        }
        if let Some(folder) = self.socket.parent().filter(|path| !path.as_os_str().is_empty()) {
            private::folder(folder)?;
            folders.push(folder.to_path_buf());
        }
        privileges::keep_only(&Allowed {
            capabilities: &[Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW],
            folders,
            // The MTU of interfaces, and what the process asks of its own memory and threads.
            read: &["/sys", "/proc"],
            devices: &["/dev/net/tun"],
            port: metrics.map(|address| address.port()),
        })
    }

    pub(super) fn options(self, names: &[String], serve: bool) -> TunnelOptions {
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

/// Asks the daemon that runs.
pub(super) fn ask(place: &LinkPlace, asked: &LinkAsk) -> Result<ControlLines, Fault> {
    control::ask(&Found::of(place)?.socket, asked, START)
}

fn up(out: Out, place: &LinkPlace, asked: &LinkUpArgs) -> Result<Exit, Fault> {
    memory::require_closed()?;
    let found = Found::of(place)?;
    found.confine(asked.metrics)?;
    let options = found.options(&asked.names, true);
    block_on(two_threads(), async {
        memory::say();
        let started = Started::open(options, FrameThreads::usual())?;
        for damaged in started.daemon.damaged() {
            out.aside(&format!(
                "peers/{}: both slots are damaged, it is set aside; restore the file only if it \
                 is the newest copy, else run `mezza link forget NAME` and pair again",
                damaged.file
            ));
        }
        let links = started.daemon.links();
        for link in &links {
            out.either(link, format!("link     {}   on {}", link.name, link.on));
        }
        if links.is_empty() {
            out.line("link     none yet; pair one: `mezza link pair IF`");
        }
        if asked.check {
            return Ok(Exit::Done);
        }
        if let Some(address) = asked.metrics {
            metrics::serve(address, started.asks.clone()).await?;
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

/// `mezza link up` with these data threads and without the bound of exchanges, for the lab (SEKA-73).
///
/// # Errors
/// What `mezza link up` refuses.
pub fn up_with(state: &Path, config: &Path, threads: FrameThreads) -> Result<Exit, Fault> {
    let place = LinkPlace { state: Some(state.into()), config: Some(config.into()) };
    let found = Found::of(&place)?;
    found.confine(None)?;
    let options = TunnelOptions { unbounded: true, ..found.options(&[], true) };
    block_on(two_threads(), async {
        let (_stop, stopped) = watch::channel(false);
        Started::open(options, threads)?.run(stopped).await
    })
}

fn rekey(out: Out, place: &LinkPlace, name: &str) -> Result<Exit, Fault> {
    let asked = LinkAsk::Rekey { name: name.to_owned() };
    ask(place, &asked)?.try_for_each(|line| line.map(|_| ()))?;
    out.either(&json!({ "event": "asked", "name": name }), format!("{name} exchanges keys"));
    Ok(Exit::Done)
}

fn forget(out: Out, place: &LinkPlace, name: &str, yes: bool) -> Result<Exit, Fault> {
    if !yes && !agreed(&format!("forget {name}? The pairing cannot be restored. [y/N] ")) {
        return Ok(Exit::No);
    }
    let asked = LinkAsk::Forget { name: name.to_owned() };
    match ask(place, &asked) {
        Ok(mut lines) => lines.try_for_each(|line| line.map(|_| ()))?,
        // Nobody runs it: the folder is ours.
        Err(fault) if fault.code == Exit::Unreachable && has_folder(place)? => {
            forget_alone(place, name)?;
        }
        Err(fault) => return Err(fault),
    }
    out.either(&json!({ "event": "forgotten", "name": name }), format!("{name} is forgotten"));
    Ok(Exit::Done)
}

/// Whether there is anything to work on without a daemon: what is in memory is in the daemon's alone.
pub(super) fn has_folder(place: &LinkPlace) -> Result<bool, Fault> {
    Ok(Found::of(place)?.state != StatePlace::Memory)
}

fn forget_alone(place: &LinkPlace, name: &str) -> Result<(), Fault> {
    let options = Found::of(place)?.options(&[], false);
    block_on(two_threads(), async {
        let mut started = Started::open(options, FrameThreads::usual())?;
        started.daemon.forget(name).map(|()| Exit::Done)
    })
    .map(|_| ())
}

/// Asks a question on the terminal; anything but yes is no.
pub(super) fn agreed(question: &str) -> bool {
    let _ = write!(std::io::stderr().lock(), "{question}");
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    read.is_ok() && matches!(line.trim(), "y" | "Y" | "yes")
}
