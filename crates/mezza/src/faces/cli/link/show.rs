//! `mezza link show`: the state of tunnels for the user.

use serde_json::Value;

use super::super::args::LinkPlace;
use super::super::show::{Out, clean_text, format_time};
use super::ask_daemon;
use mezza_host::api::{Exit, Fault};
use mezza_servers::tunnel::control::{LinkAsk, LinkJson, RoleName};

/// The states of a link, for the help of the command.
pub(crate) const STATES: &str = "\
States, as `trouble` in text and JSON:
  none            frames of the peer come, or the link is idle
  loss            the peer reports that most frames do not arrive
  silent          nothing comes back for what is sent
  no answer       five attempts at new keys in a row had no answer
  refused here    a firewall or a route of this machine refuses to send
  not recognised  somebody with the name of the peer does not have its keys
  aside           an interface, a bridge or a setting is missing or wrong

With NAME the exit code is 1 in the states silent, refused here, not recognised and aside.";

/// `mezza link show`
///
/// # Errors
/// 69 without a daemon, 66 for an unknown name.
pub(super) fn show_links(
    out: Out,
    place: &LinkPlace,
    name: Option<&str>,
    follow: bool,
) -> Result<Exit, Fault> {
    let mut alarm = false;
    let mut any = false;
    for line in ask_daemon(place, &LinkAsk::Show { name: name.map(str::to_owned), follow })? {
        let link = parse_link(line?)?;
        // A script that names one link learns from the exit code if frames pass.
        alarm |=
            matches!(link.trouble.as_str(), "not recognised" | "aside" | "silent" | "refused here");
        any = true;
        out.print_either(&link, format_link(&link));
    }
    if !any {
        out.print_line("no link runs; pair one: `mezza link pair IF`");
    }
    // A script that names one link learns from the exit code if the link is in order.
    Ok(if alarm && name.is_some() { Exit::No } else { Exit::Done })
}

/// Returns the links of the running daemon.
///
/// # Errors
/// 69 without a daemon.
pub(crate) fn list_links(place: &LinkPlace) -> Result<Vec<LinkJson>, Fault> {
    ask_daemon(place, &LinkAsk::Show { name: None, follow: false })?
        .map(|line| parse_link(line?))
        .collect()
}

fn parse_link(line: Value) -> Result<LinkJson, Fault> {
    serde_json::from_value(line).map_err(|_| {
        let text = "the daemon answers something that this version does not know";
        Fault::new(Exit::Malformed, text, "use the `mezza` of the version that runs")
    })
}

fn format_link(link: &LinkJson) -> String {
    let state = match (link.up, &link.aside) {
        (_, Some(_)) => "waits".to_owned(),
        (true, _) => format!("up {}", format_span(link.running_ms)),
        (false, _) => "down".to_owned(),
    };
    let at = link.endpoint.as_deref().unwrap_or("nowhere yet");
    let role = match link.role {
        RoleName::Initiator => "initiator",
        RoleName::Responder => "responder",
    };
    let carrier = format!("{:?}", link.carrier).to_lowercase();
    let pairing = match link.pairing.as_str() {
        "digits" => "digits compared".to_owned(),
        other => format!("pairing {other}"),
    };
    let lines = [
        format!("{}   {state}   tap {0} mtu {}   {carrier} {} {at}", link.name, link.mtu, link.on),
        format!(
            "  peer     {}   recognised {}   {role} here   {pairing}",
            link.peer,
            if link.accepted_ms == 0 { "never".into() } else { format_time(link.accepted_ms) }
        ),
        format!("  key      {}", key_text(link)),
        format!("  traffic  {}", traffic_text(link)),
        format!("  dropped  {}, refused exchanges {}", drops_text(link), link.refused),
        format!("  trouble  {}", trouble_text(link)),
    ];
    clean_lines(&lines)
}

fn key_text(link: &LinkJson) -> String {
    match (link.key_age_ms, link.rekey_in_ms) {
        (Some(age), Some(next)) => {
            let rekeys = link.rekeys;
            let took = link.exchange_ms.map_or(String::new(), |ms| format!(", last took {ms} ms"));
            let next = format_span(next);
            format!(
                "{} old, {rekeys} rekeys{took}, next in {next}, suite {}",
                format_span(age),
                link.suite
            )
        }
        _ => format!("none, {} rekeys, suite {}", link.rekeys, link.suite),
    }
}

fn traffic_text(link: &LinkJson) -> String {
    let traffic = link.traffic;
    let delivered =
        link.delivered_percent.map_or(String::new(), |percent| format!(", delivers {percent} %"));
    let offload = match (link.offload.send, link.offload.receive) {
        (true, true) => "",
        (false, true) => ", offload off when sending",
        (true, false) => ", offload off when receiving",
        (false, false) => ", offload off",
    };
    format!(
        "rx {}, tx {}{delivered}, room {}{offload}",
        format_bytes(traffic.rx_bytes),
        format_bytes(traffic.tx_bytes),
        link.room
    )
}

/// Lists the reasons for dropped frames; two are always shown, since they indicate attackers.
fn drops_text(link: &LinkJson) -> String {
    let drops: Vec<String> = link
        .dropped
        .iter()
        .filter(|(word, count)| **count > 0 || matches!(word.as_str(), "forged" | "replayed"))
        .map(|(word, count)| format!("{} {count}", word.replace('_', " ")))
        .collect();
    drops.join(", ")
}

/// Describes the trouble of a link, and the next step.
fn trouble_text(link: &LinkJson) -> String {
    match link.trouble.as_str() {
        "not recognised" => format!(
            "{0} is no longer recognised: the pairing was intercepted, one side lost its state, or \
             somebody spoofs it. Go where you trust the link and run `mezza link pair {1} --replace \
             --name {0}` on both sides",
            link.name, link.on
        ),
        "refused here" => {
            "this machine refuses to send to the peer; look at its firewall (UDP 4795, \
                           or the port of `listen`) and at `ip route get` for the peer"
                .to_owned()
        }
        "no answer" => "nobody answers; look at the other device and the cable".to_owned(),
        "aside" => link.aside.as_ref().map_or(String::new(), |aside| {
            let retry = format_span(aside.retry_ms);
            format!("it cannot run: {}. {}; tried again in {retry}", aside.reason, aside.next)
        }),
        "silent" => {
            "nothing comes back for what is sent; look at the other device and the path".to_owned()
        }
        "loss" => format!(
            "delivers {} % of what you send (path MTU?)",
            link.delivered_percent.unwrap_or_default()
        ),
        other => other.to_owned(),
    }
}

fn clean_lines(lines: &[String]) -> String {
    lines.iter().map(|line| clean_text(line)).collect::<Vec<_>>().join("\n")
}

/// Formats a duration as `18 s`, `12m`, `3h12m` or `4d`.
fn format_span(ms: u64) -> String {
    let seconds = ms / 1_000;
    let minutes = ms / 60_000;
    let hours = ms / 3_600_000;
    match hours {
        48.. => format!("{}d", hours / 24),
        1.. => format!("{hours}h{}m", minutes % 60),
        0 if minutes >= 5 => format!("{minutes}m"),
        0 => format!("{seconds} s"),
    }
}

/// Formats a size as `512 B` or `1.2 GiB`.
#[expect(clippy::cast_precision_loss, reason = "one digit behind the point is shown")]
fn format_bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (count as f64, "B");
    for next in UNITS {
        if value < 1_024.0 {
            break;
        }
        (value, unit) = (value / 1_024.0, next);
    }
    if unit == "B" { format!("{count} B") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use mezza_servers::tunnel::control::TROUBLES;

    use super::*;

    /// The help of the command and the guide list each state of a link.
    #[test]
    fn each_state_has_its_line_in_the_help_and_in_the_guide() {
        let guide = include_str!("../../../../../../docs/guide/link.md");
        for state in TROUBLES {
            assert!(STATES.lines().any(|line| line.trim_start().starts_with(state)), "{state}");
            assert!(guide.lines().any(|line| line.starts_with(&format!("| `{state}`"))), "{state}");
        }
    }

    #[test]
    fn spans_and_sizes_are_short() {
        let spans = [18_000, 102_000, 301_000, 11_520_000, 345_600_000].map(format_span);
        assert_eq!(spans, ["18 s", "102 s", "5m", "3h12m", "4d"]);
        let sizes = [512, 1_536, 1_288_490_189].map(format_bytes);
        assert_eq!(sizes, ["512 B", "1.5 KiB", "1.2 GiB"]);
    }
}
