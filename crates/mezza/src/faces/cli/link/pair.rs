//! `mezza link pair`: in the running daemon, or without one.

use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::super::args::{LinkPlace, PairArgs};
use super::super::serve::{block_on, two_threads};
use super::super::show::Out;
use super::{Found, Serving, ask_daemon, ask_yes, has_folder};
use mezza_host::api::{Exit, Fault};
use mezza_host::process::control::{ControlAnswer, ControlRequest, LinesWithin, unwrap_answer};
use mezza_servers::tunnel::TunnelEvent;
use mezza_servers::tunnel::control::{LinkAsk, PairAsk};
use mezza_servers::tunnel::daemon::{FrameThreads, Started};

/// The question to both users.
const QUESTION: &str = "does the other device show the same digits? [y/N] ";

/// `mezza link pair`
///
/// # Errors
/// The reason for which the devices were not paired; nothing is stored then.
pub(super) fn run_pairing(out: Out, place: &LinkPlace, asked: &PairArgs) -> Result<Exit, Fault> {
    let pair = PairAsk {
        on: asked.on.clone(),
        name: asked.name.clone(),
        window_s: asked.window,
        sas: asked.sas,
        role: asked.role,
        peer: asked.peer.clone(),
        to: asked.to.clone(),
        carrier: asked.carrier,
        replace: asked.replace,
    };
    let advice = if asked.sas { "compare the digits" } else { "keep others off this link" };
    out.print_line(format!(
        "pairing on {} for {} s; {advice} until it is done",
        pair.on, pair.window_s
    ));
    match ask_daemon(place, &LinkAsk::Pair(pair.clone())) {
        Ok(lines) => {
            let mut end = None;
            for line in lines {
                let line = line?;
                if let Some(digits) = told_by(out, &pair, &line) {
                    let confirm = LinkAsk::Confirm { digits, equal: ask_yes(QUESTION) };
                    for answer in ask_daemon(place, &confirm)? {
                        answer?;
                    }
                }
                end = end_of(&line).or(end);
            }
            end.unwrap_or_else(|| Err(cut_off()))
        }
        Err(fault) if fault.code == Exit::Unreachable && has_folder(place)? => {
            pair_alone(out, place, &pair)
        }
        Err(fault) => Err(fault),
    }
}

/// Pairs without a daemon, under the lock of the state folder.
fn pair_alone(out: Out, place: &LinkPlace, pair: &PairAsk) -> Result<Exit, Fault> {
    let found = Found::from_place(place)?;
    // Drop rights first: frames of unknown devices are parsed while the window is open.
    found.drop_rights(&Serving { socket: false, metrics: None })?;
    let options = found.into_options(&[], false);
    block_on(two_threads(), async {
        let started = Started::open(options, FrameThreads::for_product())?;
        let asks = started.asks.clone();
        let (answer, lines) = ControlAnswer::make_channel();
        let request = ControlRequest { asked: LinkAsk::Pair(pair.clone()), answer };
        let _ = asks.send(TunnelEvent::Asked(request)).await;
        let (_stop, stopped) = watch::channel(false);
        let running = started.run(stopped);
        tokio::pin!(running);
        let reading = read_answers(out, pair, lines, asks);
        tokio::pin!(reading);
        tokio::select! {
            // Its last lines are read before it counts as ended.
            ended = &mut running => {
                let end = reading.await?;
                ended.and(end.unwrap_or_else(|| Err(cut_off())))
            }
            read = &mut reading => {
                let end = read?;
                running.await.and(end.unwrap_or_else(|| Err(cut_off())))
            }
            _ = tokio::signal::ctrl_c() => {
                Err(Fault::new(Exit::No, "given up; nothing was kept", "run it again"))
            }
        }
    })
}

/// Prints the lines of a pairing, and asks the user to compare digits.
async fn read_answers(
    out: Out,
    pair: &PairAsk,
    mut lines: LinesWithin,
    asks: mpsc::Sender<TunnelEvent>,
) -> Result<Option<Result<Exit, Fault>>, Fault> {
    let mut end = None;
    while let Some(line) = lines.recv().await {
        let line = unwrap_answer(line)?;
        end = end_of(&line).or(end);
        if let Some(digits) = told_by(out, pair, &line) {
            let equal = tokio::task::spawn_blocking(|| ask_yes(QUESTION)).await.unwrap_or(false);
            let (answer, mut refused) = ControlAnswer::make_channel();
            let request = ControlRequest { asked: LinkAsk::Confirm { digits, equal }, answer };
            let _ = asks.send(TunnelEvent::Asked(request)).await;
            while let Some(line) = refused.recv().await {
                unwrap_answer(line)?;
            }
        }
    }
    Ok(end)
}

/// Returns the result of a pairing if this line is its end. Success means that both sides have
/// proved it.
fn end_of(line: &Value) -> Option<Result<Exit, Fault>> {
    if line.get("event").and_then(Value::as_str) != Some("paired") {
        return None;
    }
    let confirmed = line.get("confirmed").and_then(Value::as_bool) == Some(true);
    Some(if confirmed {
        Ok(Exit::Done)
    } else {
        Err(Fault::new(
            Exit::Busy,
            "the other device did not confirm the pairing",
            "if it does not say `paired`, run `mezza link pair` with --replace on both sides",
        ))
    })
}

/// Returns the fault for lines that end without a result.
fn cut_off() -> Fault {
    let text = "the pairing ended before it stood";
    Fault::new(Exit::No, text, "look at the log of the daemon, and run `mezza link pair` again")
}

/// Prints one line. Returns the digits that the user must compare, if any.
fn told_by(out: Out, pair: &PairAsk, line: &Value) -> Option<String> {
    let text = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default();
    let name = &pair.name;
    let on = &pair.on;
    match text("event") {
        "found" => out.print_either(line, format!("found {}", text("peer"))),
        "digits" => {
            out.print_either(line, format!("digits {}", text("digits")));
            return Some(text("digits").to_owned());
        }
        "paired" if pair.sas => {
            out.print_either(line, format!("nobody else answered; first key exchange accepted\npaired \"{name}\", digits compared\nnext: `mezza link up {name}`"));
        }
        "paired" => out.print_either(
            line,
            format!(
                "nobody else answered; first key exchange accepted\npaired \"{name}\", unverified: \
                 who could change frames on {on} just now could be in between (rule it out with \
                 --sas)\nnext: `mezza link up {name}`"
            ),
        ),
        _ => {}
    }
    if pair.replace && text("event") == "paired" {
        out.print_line(
            "the interface is a new one: set its address again, or write `address = [..]` in link.toml",
        );
    }
    None
}
