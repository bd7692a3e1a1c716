//! `mezza mesh`: a node without a vault, and the commands to exchange messages over it.

mod crowd;
mod listen;
mod net;
mod send;
mod show;

use mezza_hibe::Tick;
use serde_json::Value;
use tokio::sync::watch;

use super::CliContext;
use super::args::{ClockArgs, MeshBundleCommand, MeshCommand, MeshRunArgs};
use super::serve::{block_on, read_settings, two_threads};
use mezza_host::api::{Exit, Fault};
use mezza_host::process::control;
use mezza_host::process::stop::until_stopped;
use mezza_servers::mesh::control::{MeshAsk, START, socket_path};
use mezza_servers::mesh::links::LinkChoice;
use mezza_servers::mesh::network::NetworkChoice;
use mezza_servers::mesh::run::{MeshOptions, Started};
use mezza_servers::mesh::udp::PORT;

/// Runs `mezza mesh ..`.
///
/// # Errors
/// The fault of the command; see each of them.
pub(crate) fn run_mesh(context: &CliContext, what: &MeshCommand) -> Result<Exit, Fault> {
    match what {
        MeshCommand::Run(asked) => run_node(context, asked),
        MeshCommand::Status => show::show_status(context),
        MeshCommand::Peers => show::show_peers(context),
        MeshCommand::Clock(asked) => set_clock(context, asked),
        MeshCommand::Net { what } => net::run_net(context, what),
        MeshCommand::Bundle { what: MeshBundleCommand::Export { file } } => {
            net::export_bundle(context, file)
        }
        MeshCommand::Bundle { what: MeshBundleCommand::Import { file } } => {
            net::import_bundle(context, file)
        }
        MeshCommand::Send(asked) => send::run_send(context, asked),
        MeshCommand::Listen(asked) => listen::run_listen(context, asked),
        MeshCommand::Crowd(asked) => Ok(crowd::run_crowd(context.out, asked)),
    }
}

/// `mezza mesh run`
fn run_node(context: &CliContext, asked: &MeshRunArgs) -> Result<Exit, Fault> {
    read_settings(context, &[])?;
    let network = match (&asked.net, &asked.join) {
        (Some(name), _) => NetworkChoice::make_open(name)?,
        (None, Some(uri)) => NetworkChoice::of_invitation(uri)?,
        (None, None) => NetworkChoice::of_home(&context.home)?,
    };
    let name = network.name().to_owned();
    let options = MeshOptions {
        home: context.home.clone(),
        network: network.into_network(),
        links: LinkChoice {
            interfaces: asked.interfaces.clone(),
            port: asked.listen.port().unwrap_or(PORT),
            casts: !asked.no_cast,
        },
        ble: asked.ble.clone(),
        grade: asked.grade.map(Into::into),
        carried_bytes: usize::from(asked.carry_mib) << 20,
    };
    block_on(two_threads(), async {
        let started = Started::open(options).await?;
        let links = started.describe_links();
        let value = serde_json::json!({ "event": "running", "network": name, "links": links });
        context.out.print_either(&value, format!("network  {name}\nlinks    {}", links.join(", ")));
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

/// Sends a request to this home's node. Returns its one line.
fn ask_node(context: &CliContext, asked: &MeshAsk) -> Result<Value, Fault> {
    let mut lines = ask_lines(context, asked)?;
    lines.next().unwrap_or_else(|| Err(gone_fault()))
}

/// Returns the status of this home's node.
///
/// # Errors
/// Exit code 69 if none runs.
pub(super) fn node_status(context: &CliContext) -> Result<Value, Fault> {
    ask_node(context, &MeshAsk::Status)
}

/// Returns the tick of the network, if a node of this home runs.
pub(super) fn network_tick(context: &CliContext) -> Option<Tick> {
    let status = ask_node(context, &MeshAsk::Status).ok()?;
    status["cur"].as_u64().and_then(|cur| u32::try_from(cur).ok()).map(Tick)
}

/// Returns the earliest possible tick, if a node of this home runs. Moves caused by neighbours are
/// ignored, and an unsettled clock counts as late by its uncertainty.
pub(super) fn earliest_tick(context: &CliContext) -> Option<Tick> {
    let status = ask_node(context, &MeshAsk::Status).ok()?;
    status["cur"].as_u64()?;
    Some(listen::NodeClock::of_line(&status).erasing_tick())
}

/// Returns the maximum error of this home's node's clock, ms, if one runs.
pub(super) fn within_ms(context: &CliContext) -> Option<u64> {
    ask_node(context, &MeshAsk::Status).ok()?["within_ms"].as_u64()
}

/// Sends a request to this home's node. Returns all its lines.
fn ask_lines(context: &CliContext, asked: &MeshAsk) -> Result<control::ControlLines, Fault> {
    control::ask_server(&socket_path(&context.home), asked, START).map_err(|fault| {
        let text = "no mesh node runs here";
        if fault.code == Exit::Unreachable { Fault::new(fault.code, text, START) } else { fault }
    })
}

/// Returns the fault for a node that ended during a request.
fn gone_fault() -> Fault {
    Fault::new(Exit::Unreachable, "the mesh node ended", START)
}

/// `mezza mesh clock`
fn set_clock(context: &CliContext, asked: &ClockArgs) -> Result<Exit, Fault> {
    let grade = asked.grade.map(|name| mezza_mesh::Grade::from(name).word().to_owned());
    let grade = if asked.confirm { Some("fair".to_owned()) } else { grade };
    let trust_neighbours = asked.trust_neighbours;
    let asked = MeshAsk::Clock { grade, trust_neighbours };
    let status = ask_node(context, &asked)?;
    show::show_clock(context, &status)
}
