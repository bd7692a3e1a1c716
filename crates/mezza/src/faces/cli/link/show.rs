//! `mezza link show`: what a person asks of a tunnel.

use serde_json::Value;

use super::super::args::LinkPlace;
use super::super::show::{Out, clean, time};
use super::ask;
use mezza_host::api::{Exit, Fault};
use mezza_servers::tunnel::control::{LinkAsk, LinkJson, RoleName};

/// `mezza link show`
///
/// # Errors
/// 69 without a daemon, 66 for an unknown name.
pub(super) fn show(
    out: Out,
    place: &LinkPlace,
    name: Option<&str>,
    follow: bool,
) -> Result<Exit, Fault> {
    let mut alarm = false;
    let mut any = false;
    for line in ask(place, &LinkAsk::Show { name: name.map(str::to_owned), follow })? {
        let link = read(line?)?;
        alarm |= link.trouble == "not recognised";
        any = true;
        out.either(&link, text(&link));
    }
    if !any {
        out.line("no link runs; pair one: `mezza link pair IF`");
    }
    // A script that asks for one link learns whether it is in order.
    Ok(if alarm && name.is_some() { Exit::No } else { Exit::Done })
}

fn read(line: Value) -> Result<LinkJson, Fault> {
    serde_json::from_value(line).map_err(|_| {
        let text = "the daemon answers something that this version does not know";
        Fault::new(Exit::Malformed, text, "use the `mezza` of the version that runs")
    })
}

fn text(link: &LinkJson) -> String {
    let state = match link.key_age_ms {
        Some(_) => format!("up {}", span(link.running_ms)),
        None => "down".to_owned(),
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
    let key = match (link.key_age_ms, link.rekey_in_ms) {
        (Some(age), Some(next)) => {
            let rekeys = link.rekeys;
            let took = link.exchange_ms.map_or(String::new(), |ms| format!(", last took {ms} ms"));
            let next = span(next);
            format!(
                "{} old, {rekeys} rekeys{took}, next in {next}, suite {}",
                span(age),
                link.suite
            )
        }
        _ => format!("none, {} rekeys, suite {}", link.rekeys, link.suite),
    };
    let traffic = link.traffic;
    let dropped = |word: &str| link.dropped.get(word).copied().unwrap_or(0);
    let trouble = match link.trouble.as_str() {
        "not recognised" => format!(
            "{0} is no longer recognised: the pairing was intercepted, one side lost its state, or \
             somebody spoofs it. Go where you trust the link and run `mezza link pair {1} --replace \
             --name {0}` on both sides",
            link.name, link.on
        ),
        "no answer" => "nobody answers; look at the other device and the cable".to_owned(),
        other => other.to_owned(),
    };
    let lines = [
        format!("{}   {state}   tap {0} mtu {}   {carrier} {} {at}", link.name, link.mtu, link.on),
        format!(
            "  peer     {}   recognised {}   {role} here   {pairing}",
            link.peer,
            if link.accepted_ms == 0 { "never".into() } else { time(link.accepted_ms) }
        ),
        format!("  key      {key}"),
        format!(
            "  traffic  rx {}, tx {}, forged {}, replayed {}, late {}, queue {}, refused exchanges {}",
            bytes(traffic.rx_bytes),
            bytes(traffic.tx_bytes),
            dropped("forged"),
            dropped("replayed"),
            dropped("late"),
            dropped("queue"),
            link.refused
        ),
        format!("  trouble  {trouble}"),
    ];
    clean_lines(&lines)
}

fn clean_lines(lines: &[String]) -> String {
    lines.iter().map(|line| clean(line)).collect::<Vec<_>>().join("\n")
}

/// `18 s`, `12m`, `3h12m`, `4d`.
fn span(ms: u64) -> String {
    let (seconds, minutes, hours) = (ms / 1_000, ms / 60_000, ms / 3_600_000);
    match hours {
        48.. => format!("{}d", hours / 24),
        1.. => format!("{hours}h{}m", minutes % 60),
        0 if minutes >= 5 => format!("{minutes}m"),
        0 => format!("{seconds} s"),
    }
}

/// `512 B`, `1.2 GiB`.
#[expect(clippy::cast_precision_loss, reason = "one digit behind the point is shown")]
fn bytes(count: u64) -> String {
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
    use super::*;

    #[test]
    fn spans_and_sizes_are_short() {
        let spans = [18_000, 102_000, 301_000, 11_520_000, 345_600_000].map(span);
        assert_eq!(spans, ["18 s", "102 s", "5m", "3h12m", "4d"]);
        let sizes = [512, 1_536, 1_288_490_189].map(bytes);
        assert_eq!(sizes, ["512 B", "1.5 KiB", "1.2 GiB"]);
    }
}
