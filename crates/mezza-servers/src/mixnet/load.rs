//! Simulated users: one TLS connection each, one onion a round, every reply checked.
//!
//! ```text
//! entry ==TLS==> a task per user --> +------+ -- plaintexts --> threads (combs)
//! entry <== onion at its own time == | task | <-- onions, keys of the replies --
//! ```
//!
//! Users perform a client's round with two savings: scalars are multiplied by combs instead of
//! ladders, and the settings are checked once for all users.

mod round;
mod user;

pub use round::LoadReport;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mezza_core::Time;
use mezza_lanes::Kernel;
use mezza_mixnet::client::CheckedSettings;
use mezza_mixnet::config::Chain;
use mezza_mixnet::wire::{Frame, FrameBody, SignedSettings};
use mezza_mixnet::{RoundId, Service};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::client::EntryClient;
use super::server::EVENTS_MAX;
use mezza_host::api::{Exit, Fault};
use mezza_host::backend::kernel::choose_kernel;
use mezza_host::clock::now;
use mezza_host::connection::link::{LinkChange, LinkEvent, LinkTable};
use round::{LoadRound, Prepared};
use user::Pairs;

/// How long the load waits for a returned round before it gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// The options of a simulation.
#[derive(Clone, Debug)]
pub struct Load {
    /// The chain of configs of the joined network.
    pub chain: Chain,
    /// The number of users.
    pub users: u32,
    /// The number of users in conversations: the first ones, in pairs.
    pub conversing: u32,
    /// True if replies are opened.
    pub verify: bool,
}

/// An event of the simulation's task.
enum Event {
    User(u32, u64, LinkEvent),
    Prepared(Box<Prepared>),
}

/// Runs until `rounds` rounds were returned; calls `tell` for each round that ends.
///
/// # Errors
/// Exit code 69 if no round is returned for a minute.
pub async fn run_load(
    load: Load,
    rounds: u32,
    mut tell: impl FnMut(&LoadReport),
) -> Result<(), Fault> {
    let entry = EntryClient::from_chain(&load.chain).map_err(|e| Fault::bug(e.to_string()))?;
    let load = Arc::new(load);
    let entry = Arc::new(entry);
    let (events, mut queue) = mpsc::channel(EVENTS_MAX);
    // Dropping `_here` disconnects the users.
    let (_here, gone) = watch::channel(());
    for number in 0..load.users {
        let load = Arc::clone(&load);
        let entry = Arc::clone(&entry);
        tokio::spawn(user::keep_connected(number, load, entry, events.clone(), gone.clone()));
    }
    let mut crowd = Crowd {
        pairs: Pairs::new(load.conversing),
        load,
        kernel: choose_kernel(),
        links: LinkTable::default(),
        welcomed: BTreeMap::new(),
        all_there: false,
        last: None,
        rounds: BTreeMap::new(),
        due: BTreeMap::new(),
        events,
    };
    let mut left = rounds;
    let mut since = Instant::now();
    while left > 0 {
        let next = crowd.next_due().unwrap_or(now().plus_ms(1_000));
        let wake = Instant::now() + Duration::from_millis(next.since_ms(now()));
        tokio::select! {
            event = queue.recv() => match event {
                Some(Event::User(user, link, news)) => crowd.handle_link_event(user, link, news),
                Some(Event::Prepared(prepared)) => crowd.schedule_prepared(*prepared),
                None => break,
            },
            () = sleep_until(wake) => crowd.send_due(),
        }
        for report in crowd.take_ended() {
            if report.returned > 0 {
                (left, since) = (left.saturating_sub(1), Instant::now());
            }
            tell(&report);
            if left == 0 {
                break;
            }
        }
        if since.elapsed() > PATIENCE {
            let there = crowd.welcomed.len();
            let text = format!("load: no round was returned in a minute; {there} users are there");
            return Err(Fault::new(Exit::Unreachable, text, "look at the log of the entry"));
        }
    }
    Ok(())
}

/// All simulated users.
struct Crowd {
    load: Arc<Load>,
    kernel: &'static dyn Kernel,
    pairs: Pairs,
    links: LinkTable<u32>,
    /// Users that the entry welcomed, with the number of their link.
    welcomed: BTreeMap<u32, u64>,
    /// True once all users were connected at the same time: rounds count from then on.
    all_there: bool,
    last: Option<u64>,
    rounds: BTreeMap<RoundId, LoadRound>,
    /// Onions ready to be sent, by their time of departure.
    due: BTreeMap<(Time, RoundId, u32), Vec<u8>>,
    events: mpsc::Sender<Event>,
}

impl Crowd {
    fn next_due(&self) -> Option<Time> {
        let sends = self.due.keys().next().map(|(at, ..)| *at);
        sends.into_iter().chain(self.rounds.values().map(LoadRound::end_time)).min()
    }

    fn handle_link_event(&mut self, user: u32, link: u64, news: LinkEvent) {
        match self.links.handle_event(user, link, news) {
            LinkChange::None => {}
            LinkChange::Lost => {
                self.welcomed.remove(&user);
            }
            LinkChange::Frame(Frame::Welcome { .. }) => {
                self.welcomed.insert(user, link);
                self.all_there |= self.welcomed.len() == self.load.users as usize;
            }
            LinkChange::Frame(Frame::Round(id, body)) => self.handle_round_frame(user, id, body),
            LinkChange::Frame(_) => self.links.drop_link(user),
        }
    }

    fn handle_round_frame(&mut self, user: u32, id: RoundId, body: FrameBody) {
        match body {
            FrameBody::Settings(told) if id.service == Service::Conversation => {
                self.begin_round(id, &told);
            }
            FrameBody::Return { replies, .. } => {
                if let Some(round) = self.rounds.get_mut(&id) {
                    let verify = self.load.verify.then_some(self.kernel as &dyn Kernel);
                    round.record_reply(user, &replies, verify, now());
                }
            }
            FrameBody::Missed(reason) => {
                if let Some(round) = self.rounds.get_mut(&id) {
                    round.mark_missed(user, reason);
                }
            }
            _ => {}
        }
    }

    /// Checks the settings once for all users, when the first of them receives them; then all
    /// onions are made.
    fn begin_round(&mut self, id: RoundId, told: &SignedSettings) {
        if !self.all_there || self.last.is_some_and(|last| id.round <= last) {
            return;
        }
        self.last = Some(id.round);
        let checked = match CheckedSettings::check(told, &self.load.chain, None, now(), self.kernel)
        {
            Ok(checked) => checked,
            Err(error) => {
                tracing::warn!(%error, round = id.round, "settings are refused");
                return;
            }
        };
        let Some(policy) = self.load.chain.of_round(id).and_then(|c| c.find_policy(id.service))
        else {
            return;
        };
        let users = self.welcomed.keys().copied().collect();
        let round = LoadRound::new(id, checked.open_time(), policy.1.clone());
        let work = round.plan_work(users, checked, &mut self.pairs);
        self.rounds.insert(id, round);
        let events = self.events.clone();
        let kernel = self.kernel;
        tokio::task::spawn_blocking(move || {
            if let Some(prepared) = work.wrap_onions(kernel) {
                let _ = events.blocking_send(Event::Prepared(Box::new(prepared)));
            }
        });
    }

    fn schedule_prepared(&mut self, prepared: Prepared) {
        let Some(round) = self.rounds.get_mut(&prepared.id) else { return };
        let id = prepared.id;
        for (at, user, onions) in round.schedule_onions(prepared) {
            self.due.insert((at, id, user), onions);
        }
    }

    fn send_due(&mut self) {
        while let Some(entry) = self.due.first_entry().filter(|due| due.key().0 <= now()) {
            let ((_, id, user), onions) = entry.remove_entry();
            let Some(round) = self.rounds.get_mut(&id) else { continue };
            let submit = Frame::Round(id, FrameBody::Submit(onions));
            let sent = self.welcomed.contains_key(&user) && self.links.send_frame(user, submit);
            if sent { round.mark_sent(user) } else { round.drop_unsent(user) }
        }
    }

    /// Removes the rounds that are over. Returns their reports.
    fn take_ended(&mut self) -> Vec<LoadReport> {
        let over = |(id, round): (&RoundId, &LoadRound)| {
            let waits = self.due.keys().any(|(_, due, _)| due == id);
            (round.is_over(now()) && !waits).then_some(*id)
        };
        let over: Vec<RoundId> = self.rounds.iter().filter_map(over).collect();
        let rounds = over.into_iter().filter_map(|id| self.rounds.remove(&id));
        rounds.map(|round| round.judge_outcomes(&self.pairs)).collect()
    }
}
