//! `mezza guard check`: is there a route around the guard?

use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use serde_json::json;

use crate::faces::cli::args::{GuardCheckArgs, HostPort};
use crate::faces::cli::show::Out;
use mezza_host::api::Exit;
use mezza_servers::guard::routes::{DeviceRoute, list_routes};

/// How long a direct connection is tried.
const TRY_WAIT: Duration = Duration::from_secs(5);
/// Most routes that are printed.
const SHOWN_MAX: usize = 20;

/// Looks for routes to other machines than the guard. The exit code is 1 if there is one, or if the
/// routes cannot be read.
pub(super) fn check_routes(out: Out, asked: &GuardCheckArgs) -> Exit {
    let guard = asked.guard.to_canonical();
    let routes = match list_routes() {
        Ok(routes) => routes,
        Err(error) => {
            let value = json!({ "event": "unknown", "error": error.to_string() });
            out.print_either(
                &value,
                format!("the routes cannot be read: {error}; allow netlink sockets"),
            );
            return Exit::No;
        }
    };
    let around: Vec<&DeviceRoute> =
        routes.iter().filter(|route| !route.leads_only_to(guard)).collect();
    for route in around.iter().take(SHOWN_MAX) {
        print_route(out, route);
    }
    let reached = asked.attempt.as_ref().is_some_and(|target| try_direct(out, target));
    if around.is_empty() && !reached {
        let value = json!({ "event": "closed", "routes": routes.len() });
        out.print_either(&value, "no route leads around the guard");
        return Exit::Done;
    }
    Exit::No
}

fn print_route(out: Out, route: &DeviceRoute) {
    let text = route.describe();
    let next = if route.is_link_local() {
        "switch IPv6 off on the interface: `sysctl net.ipv6.conf.INTERFACE.disable_ipv6=1`"
    } else {
        "remove it, and let the address of the device have a prefix of 31 or 32 bits"
    };
    out.print_value(&json!({ "event": "around", "route": text }));
    out.print_line(format!("route    {text} leads around the guard; {next}"));
}

/// Tries a connection without the guard. Returns true if it succeeds.
fn try_direct(out: Out, target: &HostPort) -> bool {
    let addresses = (target.host.as_str(), target.port).to_socket_addrs();
    let Ok(mut addresses) = addresses else {
        out.print_value(&json!({ "event": "no-address", "target": target.host }));
        out.print_line(format!(
            "direct   {} has no address here, so nothing was tried",
            target.host
        ));
        return false;
    };
    let reached = addresses.any(|to| TcpStream::connect_timeout(&to, TRY_WAIT).is_ok());
    let text = format!("{}:{}", target.host, target.port);
    if reached {
        out.print_value(&json!({ "event": "reached", "target": text }));
        out.print_line(format!(
            "direct   a connection to {text} succeeded without the guard; add a firewall rule that lets only the \
             guard out"
        ));
    } else {
        out.print_value(&json!({ "event": "not-reached", "target": text }));
        out.print_line(format!("direct   {text} was not reached without the guard"));
    }
    reached
}
