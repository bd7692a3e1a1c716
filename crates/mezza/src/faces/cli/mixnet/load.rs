//! `mezza mixnet load`: simulated users, and if the network serves them.

use std::time::Duration;

use mezza_mixnet::Service;
use serde_json::json;
use tokio::runtime::Builder;

use crate::faces::cli::CliContext;
use crate::faces::cli::args::LoadArgs;
use crate::faces::cli::serve::{block_on, read_settings};
use mezza_host::api::{Exit, Fault, words};
use mezza_host::backend::kernel::choose_kernel;
use mezza_host::process::files;
use mezza_servers::mixnet::client;
use mezza_servers::mixnet::load::{self, Load, LoadReport};

/// File descriptors in addition to one per user.
const SPARE_FILES: u64 = 64;

/// `mezza mixnet load`
pub(super) fn run_load(context: &CliContext, asked: &LoadArgs) -> Result<Exit, Fault> {
    read_settings(context, &[])?;
    files::room_for_files(u64::from(asked.users) + SPARE_FILES)?;
    block_on(Builder::new_multi_thread(), run_rounds(context, asked))
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
    fn add_report(&mut self, report: &LoadReport) {
        self.rounds += u32::from(report.returned > 0);
        self.right += report.right;
        self.wrong += report.wrong;
        self.missed += report.missed;
        self.onions += report.onions;
        self.making += report.making;
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate is read by people")]
    /// Returns onions made per second of CPU time.
    fn onions_per_s(&self) -> f64 {
        self.onions as f64 / self.making.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

#[expect(clippy::cast_sign_loss, reason = "a part of a number of users is not negative")]
async fn run_rounds(context: &CliContext, asked: &LoadArgs) -> Result<Exit, Fault> {
    let chain = client::join_network(&asked.network.parse()?).await?;
    if chain
        .head_config()
        .find_policy(Service::Conversation)
        .is_none_or(|(_, policy)| policy.slots != 1)
    {
        let text =
            "load: simulated users take part in conversations of one slot, and here are none";
        return Err(Fault::new(Exit::No, text, "name another network"));
    }
    let conversing = (f64::from(asked.users) * asked.conversing).round() as u32 & !1;
    let load = Load { chain, users: asked.users, conversing, verify: asked.verify };
    let mut sum = Sum::default();
    load::run_load(load, asked.rounds, |report| {
        sum.add_report(report);
        context.out.print_either(&describe_report(report), format_report(report));
    })
    .await?;
    let rate = sum.onions_per_s();
    let value = json!({
        "event": "load", "users": asked.users, "conversing": conversing, "rounds": sum.rounds,
        "right": sum.right, "wrong": sum.wrong, "missed": sum.missed, "verified": asked.verify,
        "kernel": choose_kernel().name(), "onions_per_cpu_s": rate,
    });
    let verified = if asked.verify { "verified" } else { "not opened" };
    context.out.print_either(
        &value,
        format!(
            "{}, {}: {} right, {} wrong, {} missed, {verified}; {rate:.0} \
             onions made in a second of CPU with {}",
            words::format_count(asked.users.into(), "user", "users"),
            words::format_count(sum.rounds.into(), "round", "rounds"),
            words::format_count(sum.right as u64, "reply", "replies"),
            sum.wrong,
            sum.missed,
            choose_kernel().name()
        ),
    );
    Ok(if sum.wrong == 0 { Exit::Done } else { Exit::No })
}

fn describe_report(report: &LoadReport) -> serde_json::Value {
    let [middle, most, longest] = report.latency_ms;
    json!({
        "event": "round", "round": report.round, "open_ms": report.open_ms, "sent": report.sent,
        "returned": report.returned, "right": report.right, "wrong": report.wrong,
        "missed": report.missed,
        "latency_ms": { "p50": middle, "p99": most, "max": longest },
        "made_cpu_ms": report.making.as_millis() as u64,
    })
}

fn format_report(report: &LoadReport) -> String {
    let [middle, most, longest] = report.latency_ms;
    format!(
        "round {}  sent {}, returned {}, wrong {}, missed {}; {middle}/{most}/{longest} ms after the \
         close (50 %, 99 %, last)",
        report.round, report.sent, report.returned, report.wrong, report.missed
    )
}
