//! `mezza mixnet join|leave|status`: membership of this home in a mixnet.

use serde_json::json;

use crate::faces::cli::{CliContext, show};
use mezza_host::api::json::{Health, JoinRequest, Mixnet, NetworkLeaving};
use mezza_host::api::network_uri::NetworkUri;
use mezza_host::api::{Exit, Fault, words};

/// `mezza mixnet join`
pub(super) fn join_network(context: &CliContext, link: &str) -> Result<Exit, Fault> {
    // Refuse a malformed link before connecting to a node.
    let uri: NetworkUri = link.trim().parse()?;
    let request = JoinRequest { link: uri.to_string() };
    context.client()?.post::<Mixnet>("/v1/mixnet", &request)?;
    let text =
        format!("joined the mixnet of {}; `mezza mixnet status` shows its rounds", uri.address);
    context.out.print_either(&json!({ "joined": uri.to_string() }), text);
    // A card that was given away before does not name the network (MSG-153).
    context.out.print_line(
        "next: once it is up, give people your new card with `mezza card`, and `mezza add` theirs",
    );
    Ok(Exit::Done)
}

/// `mezza mixnet leave`
pub(super) fn leave_network(context: &CliContext, yes: bool) -> Result<Exit, Fault> {
    let client = context.client()?;
    if !yes {
        let leaving = client.get::<NetworkLeaving>("/v1/mixnet/leaving")?;
        for line in list_consequences(&leaving) {
            context.out.print_aside(&line);
        }
        match show::ask_person(context.out, "Leave the mixnet?") {
            Some(true) => {}
            Some(false) => {
                let next = "`mezza set NAME --carriers relay` has one conversation go another way";
                return Err(Fault::new(Exit::No, "the mixnet was not left", next));
            }
            None => {
                let text = "this home would leave the mixnet";
                return Err(Fault::new(Exit::Usage, text, "say it again with `--yes`"));
            }
        }
    }
    let left = client.delete::<NetworkLeaving>("/v1/mixnet")?;
    let uri: NetworkUri = left.link.parse()?;
    context.out.print_value(&left);
    context.out.print_line(format!("left the mixnet of {}", uri.address));
    for line in list_consequences(&left) {
        context.out.print_line(line);
    }
    Ok(Exit::Done)
}

/// Describes the effects of leaving on notes and contacts.
fn list_consequences(leaving: &NetworkLeaving) -> Vec<String> {
    let mut lines = Vec::new();
    let notes = |n: usize| words::format_count(n as u64, "note", "notes");
    if leaving.elsewhere > 0 {
        lines
            .push(format!("by the next carrier of its conversation: {}", notes(leaving.elsewhere)));
    }
    if leaving.waiting > 0 {
        let why = "waiting, as no other carrier is allowed at its level (`mezza outbox`)";
        lines.push(format!("{why}: {}", notes(leaving.waiting)));
    }
    for contact in &leaving.unreachable {
        let name = show::clean_text(&contact.name);
        let id = &contact.id;
        let next = format!("`mezza set '#{id}' --carriers relay`");
        lines.push(format!("nothing leaves for {name} until another carrier is allowed: {next}"));
    }
    if leaving.guests > 0 {
        let guests = words::format_count(leaving.guests as u64, "invitation", "invitations");
        lines.push(format!("dropped, of people without a name: {guests}"));
    }
    let kept = "what was spent of its privacy budget is kept, and counts if it is joined again";
    lines.push(kept.into());
    lines
}

/// `mezza mixnet resume`
pub(super) fn resume_restored(context: &CliContext) -> Result<Exit, Fault> {
    let net = context.client()?.post::<Mixnet>("/v1/mixnet/resume", &())?;
    let text = format!(
        "the mixnet goes on; its budget says {} and lacks those since the copy",
        words::format_count(net.rounds_used, "round", "rounds")
    );
    context.out.print_either(&json!({ "resumed": net.link }), text);
    Ok(Exit::Done)
}

/// Runs `mezza mixnet status`. The exit code is 1 while no round returns.
pub(super) fn show_status(context: &CliContext) -> Result<Exit, Fault> {
    let client = context.client()?;
    let net = client.get::<Mixnet>("/v1/mixnet")?;
    context.out.print_value(&net);
    for line in status_lines(&net) {
        context.out.print_line(line);
    }
    let health = client.as_watcher().get::<Health>("/v1/health")?;
    for line in health.lines.iter().filter(|line| line.name == "mixnet" && !line.ok) {
        let next = line.next.as_deref().unwrap_or_default();
        context.out.print_line(format!("WAITS     {}; {next}", line.text));
    }
    let is_up = net.up && net.trouble.is_none();
    Ok(match (net.clock_off, is_up) {
        (true, _) => Exit::Config,
        (false, true) => Exit::Done,
        (false, false) => Exit::No,
    })
}

fn status_lines(net: &Mixnet) -> Vec<String> {
    let known = |n: Option<u64>| n.map_or_else(|| "?".to_owned(), |n| n.to_string());
    let mut lines =
        vec![format!("network   {}", net.network.as_deref().unwrap_or("not known yet"))];
    let state = match &net.trouble {
        Some(trouble) => format!("down: {trouble}"),
        None if net.up => "up".into(),
        None => "down: no round comes back; tries go on by themselves".into(),
    };
    lines.push(format!("carrier   {state}, level {}", net.level));
    let every = net.interval_ms.map_or_else(String::new, |ms| format!(", one every {ms} ms"));
    lines.push(format!(
        "round     {}{every}, {} in the last one",
        known(net.round),
        words::format_count(net.users.into(), "user", "users")
    ));
    if let Some([mu, scale]) = net.noise {
        let grade = words::mixnet::noise_by_name(net.noise_grade.as_deref());
        lines.push(format!("noise     {} servers, mu={mu}, scale {scale}{grade}", net.mixes));
    }
    lines.extend(net.budgets.iter().filter_map(|budget| {
        let max = budget.max?;
        let spent = if budget.used >= max { "; it is SPENT" } else { "" };
        Some(format!("budget    {} of {max} {} rounds used{spent}", budget.used, budget.service))
    }));
    lines.extend(net.rounds_max.zip(net.promise.as_ref()).map(|(_, promise)| {
        format!(
            "promise   50 % becomes at most {:.0} %, but for one chance in {}; after two years one in {}",
            promise.likely,
            one_in(promise.idle),
            one_in(promise.two_years)
        )
    }));
    lines.extend(match net.rounds_max {
        Some(_) => None,
        None if net.network.is_some() => Some(format!(
            "budget    none: this network promises nothing ({} taken part in)",
            words::format_count(net.rounds_used, "round", "rounds")
        )),
        None => {
            let used = words::format_count(net.rounds_used, "round", "rounds");
            Some(format!("budget    not known yet, {used} used"))
        }
    });
    if net.alarms > 0 {
        let times = words::format_count(net.alarms.into(), "time", "times");
        lines.push(format!("ALARM     {times} noise of a server did not come back"));
    }
    lines
}

/// Returns `1 / delta`: one case of this many has the probability.
#[expect(clippy::cast_sign_loss, reason = "a probability is not negative")]
fn one_in(delta: f64) -> u64 {
    (1.0 / delta.max(f64::MIN_POSITIVE)).floor() as u64
}
