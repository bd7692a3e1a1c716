//! `mezza guard watch`: a watchdog for a guard, on another machine.

use std::sync::Arc;

use mezza_guard::keys::PairingKey;
use serde_json::json;
use tokio::sync::watch;
use zeroize::Zeroizing;

use super::CODE_BYTES_MAX;
use crate::faces::cli::args::GuardWatchArgs;
use crate::faces::cli::serve::{block_on, two_threads};
use crate::faces::cli::show::Out;
use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::private;
use mezza_host::process::memory;
use mezza_host::process::stop::until_stopped;
use mezza_servers::guard::watch::{Finding, ListeningWatch, WatchHop, WatchOptions};

/// Relays both sides of a guard until Ctrl-C. The exit code is 1 if the guard broke a rule.
///
/// # Errors
/// Exit code 65 for a mistyped code, 69 if an address cannot be listened on.
pub(super) fn watch_guard(out: Out, asked: &GuardWatchArgs) -> Result<Exit, Fault> {
    memory::require_closed()?;
    let pairings = asked.code_file.iter().map(|path| {
        let bytes = Zeroizing::new(private::read(path, CODE_BYTES_MAX)?);
        let code = std::str::from_utf8(&bytes).unwrap_or_default();
        PairingKey::from_code(code).map_err(|error| {
            let text = format!("{}: {error}", path.display());
            Fault::new(Exit::Malformed, text, "write the code of `mezza guard pair` into the file")
        })
    });
    let pairings = pairings.collect::<Result<Vec<_>, _>>()?;
    let report = move |finding: Finding| {
        let value = json!({ "event": "finding", "finding": finding });
        out.print_either(&value, format!("finding  {finding}; stop using this guard"));
    };
    let hop = |listen, target: &crate::faces::cli::args::HostPort| WatchHop {
        listen,
        host: target.host.clone(),
        port: target.port,
    };
    let options = WatchOptions {
        inside: hop(asked.inside, &asked.guard),
        wire: hop(asked.wire, &asked.to),
        pairings,
        report: Arc::new(report),
    };
    let counts = block_on(two_threads(), async {
        let (stop, stopped) = watch::channel(false);
        let running = ListeningWatch::listen(options).await?.run(stopped);
        tokio::pin!(running);
        out.print_either(&json!({ "event": "watching" }), "watching the guard");
        tokio::select! {
            ended = &mut running => Ok(ended),
            signal = until_stopped(stop.subscribe()) => {
                signal?;
                let _ = stop.send(true);
                Ok(running.await)
            }
        }
    })?;
    let value =
        json!({ "event": "watched", "compared": counts.compared, "findings": counts.findings });
    let text = format!("compared {} keys, {} findings", counts.compared, counts.findings);
    out.print_either(&value, text);
    Ok(if counts.findings == 0 { Exit::Done } else { Exit::No })
}
