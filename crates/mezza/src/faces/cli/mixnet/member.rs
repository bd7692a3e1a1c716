//! `mezza mixnet join|status`: this home in a mixnet.

use serde_json::json;

use crate::api::json::{Health, JoinRequest, Mixnet};
use crate::api::network_uri::NetworkUri;
use crate::api::{Exit, Fault, words};
use crate::faces::cli::CliContext;

/// As many rounds are no budget: the network promises nothing, for ever.
const NO_BUDGET: u64 = u32::MAX as u64;

/// `mezza mixnet join`
pub(super) fn join(context: &CliContext, link: &str) -> Result<Exit, Fault> {
    // A malformed link is refused before a node is needed.
    let uri: NetworkUri = link.trim().parse()?;
    let request = JoinRequest { link: uri.to_string() };
    context.client()?.post::<Mixnet>("/v1/mixnet", &request)?;
    let text =
        format!("joined the mixnet of {}; `mezza mixnet status` shows its rounds", uri.address);
    context.out.either(&json!({ "joined": uri.to_string() }), text);
    Ok(Exit::Done)
}

/// `mezza mixnet resume`
pub(super) fn resume(context: &CliContext) -> Result<Exit, Fault> {
    let net = context.client()?.post::<Mixnet>("/v1/mixnet/resume", &())?;
    let text = format!(
        "the mixnet goes on; its budget says {} and lacks those since the copy",
        words::counted(net.rounds_used, "round", "rounds")
    );
    context.out.either(&json!({ "resumed": net.link }), text);
    Ok(Exit::Done)
}

/// `mezza mixnet status`
pub(super) fn status(context: &CliContext) -> Result<Exit, Fault> {
    let client = context.client()?;
    let net = client.get::<Mixnet>("/v1/mixnet")?;
    context.out.value(&net);
    for line in lines(&net) {
        context.out.line(line);
    }
    let health = client.get::<Health>("/v1/health")?;
    for line in health.lines.iter().filter(|line| line.name == "mixnet" && !line.ok) {
        let next = line.next.as_deref().unwrap_or_default();
        context.out.line(format!("WAITS     {}; {next}", line.text));
    }
    Ok(if net.clock_off { Exit::Config } else { Exit::Done })
}

fn lines(net: &Mixnet) -> Vec<String> {
    let known = |n: Option<u64>| n.map_or_else(|| "?".to_owned(), |n| n.to_string());
    let mut lines =
        vec![format!("network   {}", net.network.as_deref().unwrap_or("not known yet"))];
    let state = if net.up { "up" } else { "down; the next try comes by itself" };
    lines.push(format!("carrier   {state}, level {}", net.level));
    let every = net.interval_ms.map_or_else(String::new, |ms| format!(", one every {ms} ms"));
    lines.push(format!(
        "round     {}{every}, {} in the last one",
        known(net.round),
        words::counted(net.users.into(), "user", "users")
    ));
    if let Some([mu, scale]) = net.noise {
        let demo = if net.demo { "  DEMO NOISE: it hides nothing" } else { "" };
        lines.push(format!("noise     {} servers, mu={mu}, scale {scale}{demo}", net.mixes));
    }
    lines.push(match net.rounds_max {
        Some(max) if max < NO_BUDGET => {
            format!("budget    {} of {max} rounds used", net.rounds_used)
        }
        Some(_) => format!(
            "budget    none: this network promises nothing ({} taken part in)",
            words::counted(net.rounds_used, "round", "rounds")
        ),
        None => {
            let used = words::counted(net.rounds_used, "round", "rounds");
            format!("budget    not known yet, {used} used")
        }
    });
    if net.alarms > 0 {
        let times = words::counted(net.alarms.into(), "time", "times");
        lines.push(format!("ALARM     {times} noise of a server did not come back"));
    }
    if net.clock_off {
        lines.push("mixnet: this clock and the network's differ; set the clock".into());
    }
    lines
}
