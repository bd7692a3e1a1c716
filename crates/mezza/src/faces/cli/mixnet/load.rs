//! `mezza mixnet load`: simulated users, and whether the network serves them.

use std::time::Duration;

use mezza_mixnet::Service;
use serde_json::json;
use tokio::runtime::Builder;

use crate::faces::cli::CliContext;
use crate::faces::cli::args::LoadArgs;
use crate::faces::cli::serve::{block_on, settings};
use mezza_host::api::{Exit, Fault, words};
use mezza_host::backend::kernel::kernel;
use mezza_host::process::files;
use mezza_servers::mixnet::client;
use mezza_servers::mixnet::load::{self, Load, LoadReport};

/// Files beside one for each user.
const SPARE_FILES: u64 = 64;

/// `mezza mixnet load`
pub(super) fn load(context: &CliContext, asked: &LoadArgs) -> Result<Exit, Fault> {
    settings(context, &[])?;
    files::room_for_files(u64::from(asked.users) + SPARE_FILES)?;
    block_on(Builder::new_multi_thread(), run(context, asked))
}

/// All rounds together.
#[derive(Default)]
struct Sum {
    rounds: u32,
    right: usize,
    wrong: usize,
    missed: usize,
    onions: usize,
    making: Duration,
}

impl Sum {
    fn add(&mut self, report: &LoadReport) {
        self.rounds += u32::from(report.returned > 0);
        self.right += report.right;
        self.wrong += report.wrong;
        self.missed += report.missed;
        self.onions += report.onions;
        self.making += report.making;
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate is read by people")]
    /// By core.
    fn onions_per_s(&self) -> f64 {
        self.onions as f64 / self.making.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

#[expect(clippy::cast_sign_loss, reason = "a part of a number of users is not negative")]
async fn run(context: &CliContext, asked: &LoadArgs) -> Result<Exit, Fault> {
    let chain = client::join(&asked.network.parse()?).await?;
    if chain.head().policy(Service::Conversation).is_none_or(|(_, policy)| policy.slots != 1) {
        let text =
            "load: simulated users take part in conversations of one slot, and here are none";
        return Err(Fault::new(Exit::No, text, "name another network"));
    }
    let conversing = (f64::from(asked.users) * asked.conversing).round() as u32 & !1;
    let load = Load { chain, users: asked.users, conversing, verify: asked.verify };
    let mut sum = Sum::default();
    load::run(load, asked.rounds, |report| {
        sum.add(report);
        context.out.either(&value(report), line(report));
    })
    .await?;
    let rate = sum.onions_per_s();
    let value = json!({
        "event": "load", "users": asked.users, "conversing": conversing, "rounds": sum.rounds,
        "right": sum.right, "wrong": sum.wrong, "missed": sum.missed, "verified": asked.verify,
        "kernel": kernel().name(), "onions_per_cpu_s": rate,
    });
    let verified = if asked.verify { "verified" } else { "not opened" };
    context.out.either(
        &value,
        format!(
            "{}, {}: {} right, {} wrong, {} missed, {verified}; {rate:.0} \
             onions made in a second of CPU with {}",
            words::counted(asked.users.into(), "user", "users"),
            words::counted(sum.rounds.into(), "round", "rounds"),
            words::counted(sum.right as u64, "reply", "replies"),
            sum.wrong,
            sum.missed,
            kernel().name()
        ),
    );
    Ok(if sum.wrong == 0 { Exit::Done } else { Exit::No })
}

fn value(report: &LoadReport) -> serde_json::Value {
    let [middle, most, longest] = report.latency_ms;
    json!({
        "event": "round", "round": report.round, "open_ms": report.open_ms, "sent": report.sent,
        "returned": report.returned, "right": report.right, "wrong": report.wrong,
        "missed": report.missed,
        "latency_ms": { "p50": middle, "p99": most, "max": longest },
        "made_cpu_ms": report.making.as_millis() as u64,
    })
}

fn line(report: &LoadReport) -> String {
    let [middle, most, longest] = report.latency_ms;
    format!(
        "round {}  sent {}, returned {}, wrong {}, missed {}; {middle}/{most}/{longest} ms after the \
         close (50 %, 99 %, last)",
        report.round, report.sent, report.returned, report.wrong, report.missed
    )
}
