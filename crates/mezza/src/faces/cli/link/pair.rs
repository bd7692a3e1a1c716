//! `mezza link pair`: by the daemon that runs, or alone.

use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::super::args::{LinkPlace, PairArgs};
use super::super::serve::{block_on, two_threads};
use super::super::show::Out;
use super::{Found, agreed, ask, has_folder};
use mezza_host::api::{Exit, Fault};
use mezza_host::process::control::{ControlAnswer, ControlRequest, told};
use mezza_servers::tunnel::TunnelEvent;
use mezza_servers::tunnel::control::{LinkAsk, PairAsk};
use mezza_servers::tunnel::daemon::{FrameThreads, Started};

/// What both users are asked.
const QUESTION: &str = "does the other device show the same digits? [y/N] ";

/// `mezza link pair`
///
/// # Errors
/// Whatever keeps the devices apart; nothing is kept then.
pub(super) fn pair(out: Out, place: &LinkPlace, asked: &PairArgs) -> Result<Exit, Fault> {
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
    out.line(format!("pairing on {} for {} s; {advice} until it is done", pair.on, pair.window_s));
    match ask(place, &LinkAsk::Pair(pair.clone())) {
        Ok(lines) => {
            for line in lines {
                if told_by(out, &pair, &line?) {
                    ask(place, &LinkAsk::Confirm { equal: agreed(QUESTION) })?.for_each(drop);
                }
            }
            Ok(Exit::Done)
        }
        Err(fault) if fault.code == Exit::Unreachable && has_folder(place)? => {
            alone(out, place, &pair)
        }
        Err(fault) => Err(fault),
    }
}

/// Without a daemon, under the lock of the state folder.
fn alone(out: Out, place: &LinkPlace, pair: &PairAsk) -> Result<Exit, Fault> {
    let options = Found::of(place)?.options(&[], false);
    block_on(two_threads(), async {
        let started = Started::open(options, FrameThreads::usual())?;
        let asks = started.asks.clone();
        let (answer, lines) = ControlAnswer::within();
        let request = ControlRequest { asked: LinkAsk::Pair(pair.clone()), answer };
        let _ = asks.send(TunnelEvent::Asked(request)).await;
        let (_stop, stopped) = watch::channel(false);
        let running = started.run(stopped);
        tokio::pin!(running);
        let reading = read(out, pair, lines, asks);
        tokio::pin!(reading);
        tokio::select! {
            // What it said last is read before it counts as ended.
            ended = &mut running => {
                reading.await?;
                ended
            }
            read = &mut reading => {
                read?;
                running.await
            }
            _ = tokio::signal::ctrl_c() => {
                Err(Fault::new(Exit::No, "given up; nothing was kept", "run it again"))
            }
        }
    })
}

/// Prints the lines of a pairing, and asks the user about digits.
async fn read(
    out: Out,
    pair: &PairAsk,
    mut lines: mpsc::Receiver<Value>,
    asks: mpsc::Sender<TunnelEvent>,
) -> Result<(), Fault> {
    while let Some(line) = lines.recv().await {
        if told_by(out, pair, &told(line)?) {
            let equal = tokio::task::spawn_blocking(|| agreed(QUESTION)).await.unwrap_or(false);
            let (answer, _) = ControlAnswer::within();
            let request = ControlRequest { asked: LinkAsk::Confirm { equal }, answer };
            let _ = asks.send(TunnelEvent::Asked(request)).await;
        }
    }
    Ok(())
}

/// Prints one line; true if the user is asked about digits.
fn told_by(out: Out, pair: &PairAsk, line: &Value) -> bool {
    let text = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default();
    let (name, on) = (&pair.name, &pair.on);
    match text("event") {
        "found" => out.either(line, format!("found {}", text("peer"))),
        "digits" => {
            out.either(line, format!("digits {}", text("digits")));
            return true;
        }
        "paired" if pair.sas => {
            out.either(line, format!("nobody else answered; first key exchange accepted\npaired \"{name}\", digits compared\nnext: mezza link up {name}"));
        }
        "paired" => out.either(
            line,
            format!(
                "nobody else answered; first key exchange accepted\npaired \"{name}\", unverified: \
                 who could change frames on {on} just now could be in between (rule it out with \
                 --sas)\nnext: mezza link up {name}"
            ),
        ),
        _ => {}
    }
    false
}
