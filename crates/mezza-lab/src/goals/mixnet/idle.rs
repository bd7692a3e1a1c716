//! T9: an idle member of a mixnet with the times of the preset `standard`, in its own namespace.
//!
//! ```text
//!  |--- conversations every 5 s, calls every 60 s ---|--- the same, and one round of invitations ---|
//!        rates a second                                    what is above them: once an hour
//! ```

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mezza::testing::clock::now;
use mezza::testing::servers::mixnet::demo::{Times, make_policy};
use mezza_core::Time;
use mezza_mixnet::Service;
use mezza_mixnet::config::{Mode, ServicePolicy};
use mezza_mixnet::noise::Law;
use mezza_mixnet::privacy::NoisePreset;
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::goals::idle::{self, CARD, ClientCost, IdleCost, SERVER, SIDES};
use crate::goals::node::world::{Process, start_node_alone};
use crate::limit::Limit;
use crate::ours::mixes::{NetworkPlace, ProcessMixnet};
use crate::profile::Profile;
use crate::row::Row;

/// A day of the preset takes 210 MB by the guide (20 for conversations, 112 for calls, 78 for
/// invitations), which is with 5 % for headers 6,600 MB a month: 66 times Groove. A round of
/// conversations every 5 s may cause ten wake-ups. Rounds of 1 ms take 17 CPU seconds a day, 24
/// lists of 12,450 invitations at 100 us take 30 s; the limit is about twice the sum, for calls.
pub const LIMITS: [Limit; 3] = idle::make_limits(
    "T9",
    [
        "idle member, preset standard, traffic",
        "idle member, preset standard, wake-ups",
        "idle member, preset standard, CPU",
    ],
    [6_600.0, 2.0, 120.0],
);

/// Returns the times of each service in the guide's example config: interval, ask, lead, collect,
/// `mix_limit`, ms.
const fn standard_times(service: Service) -> Times {
    match service {
        Service::Conversation => [5_000, 2_000, 5_000, 4_000, 20_000],
        Service::Call => [60_000, 10_000, 10_000, 20_000, 60_000],
        Service::Invitation => [3_600_000, 10_000, 10_000, 60_000, 120_000],
    }
}

/// Returns the times of a smoke run, whose figures decide nothing.
const fn hurried_times(service: Service) -> Times {
    match service {
        Service::Conversation => [500, 100, 200, 250, 2_000],
        Service::Call => [2_000, 200, 400, 500, 2_000],
        Service::Invitation => [5_000, 200, 400, 500, 3_000],
    }
}

/// Invitation rounds per day.
const INVITATIONS_A_DAY: f64 = 24.0;
/// Maximum seconds for the start of servers and node before the first wait.
const START_S: u64 = 30;
/// Duration of an invitation round from its open to the last fetched byte, s: ask, lead, collect,
/// mixes.
const INVITATION_S: u64 = 130;
/// A small noise for conversations, which costs a member nothing.
const LITTLE: Law = Law { mode: Mode::Gauss, mu: 40, scale: 6 };

/// Lengths of the wait and of the main measurement, s.
#[derive(Clone, Copy)]
struct Lengths {
    settle: u64,
    main: u64,
}

/// Starts a network and a member, and watches the member.
pub fn measure_rows(bench: &mut Bench) -> Result<Vec<Row>> {
    if let Some(rows) = idle::not_here(&LIMITS) {
        return Ok(rows);
    }
    let lengths = bench.profile.pick(
        Lengths { settle: 4, main: 6 },
        Lengths { settle: 70, main: 60 },
        Lengths { settle: 70, main: 600 },
    );
    let folder = bench.folder.path().join("idle");
    std::fs::create_dir(&folder)?;
    let net = idle::lay_cable(&folder)?;
    idle::switch_off_ip6(&net)?;
    let invited = now().plus_ms(1_000 * (START_S + lengths.settle + lengths.main));
    let services = list_services(bench.profile, invited);
    let place = NetworkPlace { host: SERVER.parse::<Ipv4Addr>()?, users_max: 10_000 };
    let at = folder.clone();
    let mixnet =
        net.run_within(SIDES[1], move || ProcessMixnet::start_at(&at, place, services))??;
    let at = folder.clone();
    let node = net.run_within(SIDES[0], move || start_node_alone(&at, "node"))??;
    join_network(&node, &mixnet.network_link())?;
    std::thread::sleep(Duration::from_secs(lengths.settle));
    let first = round_of(&node)?;
    let main = IdleCost::watch_process(node.pid(), CARD, Duration::from_secs(lengths.main))?;
    let rounds = round_of(&node)?.saturating_sub(first);
    ensure!(rounds > 0, "the member took part in no round");
    let words = format!("{}; {rounds} rounds of conversations", main.describe_counts());
    let mut all = main.extrapolate();
    let mut details = vec![words];
    if bench.profile == Profile::Smoke {
        details.push("a smoke run has rounds ten times as often and less noise".into());
    } else {
        details.push(NOISE.into());
        let invitation = watch_invitation(&node, &main, invited)?;
        details.push(format!(
            "a round of invitations beside that: {:.2} MB, {:.0} wake-ups, {:.0} ms of CPU; 24 of them a day are counted",
            invitation.bytes / 1e6,
            invitation.wakes,
            invitation.cpu_s * 1e3
        ));
        all = invitation.add_to(all);
    }
    all.make_rows(bench, &LIMITS, details)
}

/// The difference between this network and a real one.
const NOISE: &str = "calls and invitations have the noise of the preset, which members fetch, but no calls of others; \
                     conversations less, which costs a member nothing";

/// Returns the services of the network. An invitation round opens at `invited`.
fn list_services(profile: Profile, invited: Time) -> Vec<ServicePolicy> {
    let is_smoke = profile == Profile::Smoke;
    let service = |service: Service| {
        let times = if is_smoke { hurried_times(service) } else { standard_times(service) };
        let noise = NoisePreset::Standard.noise(service);
        let has_little = is_smoke || service == Service::Conversation;
        let preset = Law { mode: Mode::Gauss, mu: noise.mu, scale: noise.scale };
        let law = if has_little { LITTLE } else { preset };
        make_policy(service, times, law, invited.minus_ms(3_600_000))
    };
    Service::ALL.map(service).to_vec()
}

/// Joins the network and waits until rounds return.
fn join_network(node: &Process, link: &str) -> Result<()> {
    node.client()?.post::<Value>("/v1/mixnet", &json!({ "link": link }))?;
    let end = Instant::now() + Duration::from_secs(60);
    while mixnet_of(node)?["up"] != true {
        ensure!(Instant::now() < end, "no round came back within a minute");
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// Returns the node's view of its mixnet.
fn mixnet_of(node: &Process) -> Result<Value> {
    Ok(node.client()?.as_watcher().get("/v1/mixnet")?)
}

/// Returns the number of the last conversation round that returned.
fn round_of(node: &Process) -> Result<u64> {
    mixnet_of(node)?["round"].as_u64().context("no round came back")
}

/// The cost of one invitation round.
struct InvitationCost {
    bytes: f64,
    wakes: f64,
    cpu_s: f64,
}

impl InvitationCost {
    /// Returns the cost of a member with 24 invitation rounds per day.
    fn add_to(&self, main: ClientCost) -> ClientCost {
        ClientCost {
            mb_month: main.mb_month + 30.0 * INVITATIONS_A_DAY * self.bytes / 1e6,
            wakes_s: main.wakes_s + INVITATIONS_A_DAY * self.wakes / 86_400.0,
            cpu_s_day: main.cpu_s_day + INVITATIONS_A_DAY * self.cpu_s,
        }
    }
}

/// Watches the invitation round that opens at `invited`, and subtracts the cost of the other
/// services.
fn watch_invitation(node: &Process, main: &IdleCost, invited: Time) -> Result<InvitationCost> {
    let wait = invited.as_ms().saturating_sub(now().as_ms());
    std::thread::sleep(Duration::from_millis(wait));
    let all = IdleCost::watch_process(node.pid(), CARD, Duration::from_secs(INVITATION_S))?;
    let above =
        |all_of: f64, main_of: f64| (all_of - main_of * all.seconds / main.seconds).max(0.0);
    Ok(InvitationCost {
        bytes: above(all.all_bytes(), main.all_bytes()),
        wakes: above(all.wakes, main.wakes),
        cpu_s: above(all.cpu_s, main.cpu_s),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_of_invitations_counts_24_times_a_day() {
        let one = InvitationCost { bytes: 1e6, wakes: 3_600.0, cpu_s: 2.0 };
        let all = one.add_to(ClientCost { mb_month: 10.0, wakes_s: 0.5, cpu_s_day: 1.0 });
        assert_eq!(
            [all.mb_month, all.wakes_s, all.cpu_s_day].map(f64::to_bits),
            [730.0_f64, 1.5, 49.0].map(f64::to_bits)
        );
    }

    #[test]
    fn the_network_is_the_preset_but_for_the_noise_of_conversations() {
        let invited = Time::from_ms(1_800_000_000_000);
        let services = list_services(Profile::Full, invited);
        assert_eq!(
            services.iter().map(|s| s.interval_ms).collect::<Vec<_>>(),
            [5_000, 60_000, 3_600_000]
        );
        assert_eq!(services.iter().map(|s| s.mu).collect::<Vec<_>>(), [40, 8_000, 4_150]);
        let last = &services[2];
        assert_eq!((invited.as_ms() - last.base_time.as_ms()) % u64::from(last.interval_ms), 0);
    }
}
