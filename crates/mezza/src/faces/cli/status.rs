//! `mezza status`: node, carriers, mesh, links and a relay of this home on one screen.
//!
//! Each line reports what was proven when it was requested: a carrier is up if the node has a
//! connection, a link is up if frames of the other side arrive.

use super::args::LinkPlace;
use super::client::ApiClient;
use super::{CliContext, link, mesh, serve};
use mezza_host::api::json::{
    CarrierJson, Carriers, Contacts, Health, HealthLine, NodeStateJson, OutboxJson, StatusJson,
};
use mezza_host::api::{Exit, Fault, words};
use mezza_servers::relay;
use serde_json::Value;

/// `mezza status`. Ends with 0 if all lines are good, with 69 if no node runs, else with 1.
pub(crate) fn show_status(context: &CliContext) -> Exit {
    let mut lines = Vec::new();
    let node = context.client().map(|client| client.as_watcher());
    let is_running = match node.and_then(|client| add_node(&client, &mut lines)) {
        Ok(()) => true,
        Err(fault) => {
            lines.push(bad_line("node", &fault));
            false
        }
    };
    lines.push(describe_mesh(context));
    lines.extend(describe_links());
    lines.extend(describe_server(context));
    let health = Health { lines };
    context.out.print_value(&health);
    for line in &health.lines {
        let next = line.next.as_ref().map_or(String::new(), |next| format!("; {next}"));
        context.out.print_line(format!("{:<8} {}{next}", line.name, line.text));
    }
    match (is_running, health.lines.iter().all(|line| line.ok)) {
        (true, true) => Exit::Done,
        (true, false) => Exit::No,
        (false, _) => Exit::Unreachable,
    }
}

fn bad_line(name: &str, fault: &Fault) -> HealthLine {
    HealthLine::bad(name, &fault.text, &fault.next)
}

/// Adds the lines of the node: its state, its carriers, and what waits.
///
/// # Errors
/// If the node does not answer.
fn add_node(client: &ApiClient, lines: &mut Vec<HealthLine>) -> Result<(), Fault> {
    let status: StatusJson = client.get("/v1/status")?;
    lines.push(match status.state {
        NodeStateJson::Open => HealthLine::good("node", &serve::state_line(&status)),
        NodeStateJson::Locked => HealthLine::bad("node", "running, locked", "`mezza unlock`"),
        NodeStateJson::Empty => HealthLine::bad(
            "node",
            "running, no identity yet",
            "make one with `mezza init` or on the page",
        ),
    });
    if status.state != NodeStateJson::Open {
        // Without its keys the node knows neither contacts nor carriers.
        return Ok(());
    }
    let health: Health = client.get("/v1/health")?;
    let carriers = client.get::<Carriers>("/v1/carriers")?.carriers;
    lines.extend(carriers.iter().map(|carrier| describe_carrier(carrier, &health)));
    if carriers.is_empty() {
        let next = "join one with `mezza card renew --relay URI` or `mezza mixnet join LINK`";
        lines.push(HealthLine::bad("carriers", "none: no note can reach you", next));
    }
    let waiting = client.get::<OutboxJson>("/v1/outbox")?.notes.len() as u64;
    let contacts = client.get::<Contacts>("/v1/contacts")?.contacts;
    let unread: usize = contacts.iter().map(|contact| contact.unread).sum();
    let waits = match waiting {
        0 => "nothing".into(),
        n => words::format_count(n, "note", "notes") + ": `mezza outbox`",
    };
    lines.push(HealthLine::good("waits", &waits));
    lines.push(HealthLine::good("new", &words::format_count(unread as u64, "note", "notes")));
    Ok(())
}

fn describe_carrier(carrier: &CarrierJson, health: &Health) -> HealthLine {
    let name = &carrier.carrier;
    let at = carrier.relay.as_ref();
    let at = at.map_or(String::new(), |relay| format!(", at {}:{}", relay.host, relay.port));
    let demo = if carrier.demo { ", DEMO" } else { "" };
    if carrier.up {
        return HealthLine::good(name, &format!("up, level {}{demo}{at}", carrier.level));
    }
    let reason = health.lines.iter().find(|line| line.name == *name && !line.ok);
    let text = reason.map_or(String::new(), |line| format!(": {}", line.text));
    let next = reason.and_then(|line| line.next.clone());
    let next = next.unwrap_or_else(|| "`mezza doctor` has more".into());
    HealthLine::bad(name, &format!("down{at}{text}"), &next)
}

/// Describes the mesh node of this home. A home without one is in order.
fn describe_mesh(context: &CliContext) -> HealthLine {
    let status = match mesh::node_status(context) {
        Ok(status) => status,
        Err(fault) if fault.code == Exit::Unreachable => {
            return HealthLine::good("mesh node", "none runs here");
        }
        Err(fault) => return bad_line("mesh node", &fault),
    };
    let neighbours = status["around"].as_u64().unwrap_or(0);
    let neighbours = words::format_count(neighbours, "neighbour", "neighbours");
    let network = status["network"].as_str().unwrap_or("?");
    let clock = status["state"].as_str().unwrap_or("?");
    let text = format!("network {network}, {neighbours}, clock {clock}");
    if status["elsewhere_ms"] == Value::Null && status["other_day"] == Value::Null {
        return HealthLine::good("mesh node", &text);
    }
    let text = text + ", which contradicts this clock";
    HealthLine::bad("mesh node", &text, "`mezza mesh clock` says by how much")
}

/// Describes each link of the daemon of this machine. A machine without one is in order.
fn describe_links() -> Vec<HealthLine> {
    let place = LinkPlace { state: None, config: None };
    match link::list_links(&place) {
        Ok(links) if links.is_empty() => vec![HealthLine::good("link", "no link yet")],
        Ok(links) => {
            let line = |one: mezza_servers::tunnel::control::LinkJson| {
                let text = format!("{} on {}", one.name, one.on);
                match (one.up, one.trouble.as_str()) {
                    (true, "none") => HealthLine::good("link", &format!("{text}: up")),
                    (false, "none") => HealthLine::good("link", &format!("{text}: idle")),
                    (_, trouble) => {
                        let next = format!("`mezza link show {}` says what to do", one.name);
                        HealthLine::bad("link", &format!("{text}: {trouble}"), &next)
                    }
                }
            };
            links.into_iter().map(line).collect()
        }
        Err(fault) if fault.code == Exit::Unreachable => {
            vec![HealthLine::good("link", "no daemon runs here")]
        }
        Err(fault) => vec![bad_line("link", &fault)],
    }
}

/// Describes the relay that this home holds, if any.
pub(crate) fn describe_server(context: &CliContext) -> Option<HealthLine> {
    let folder = context.home.relay();
    relay::read_key(&folder).ok()?;
    Some(match relay::running_address(&folder) {
        Some(address) => {
            HealthLine::good("server", &format!("the relay of this home listens on {address}"))
        }
        None => HealthLine::bad(
            "server",
            "the relay of this home does not run",
            "start it with `mezza relay run`",
        ),
    })
}
