//! `mezza mixnet privacy`: the noise for a promise, or the promise of a noise.

use mezza_mixnet::Service;
use mezza_mixnet::config::Mode;
use mezza_mixnet::noise::Law;
use mezza_mixnet::privacy::{
    Accounting, Bracket, NetworkPromise, NoisePreset, PrivacyTarget, RoundsSpent, advanced_delta,
    delta, fifty_becomes, noise_for, reached_delta, tight_delta,
};
use serde_json::{Value, json};

use crate::faces::cli::args::{self, PresetName, PrivacyArgs, ServiceName};
use crate::faces::cli::show::Out;
use mezza_host::api::{Exit, Fault, figures, words};

/// `mezza mixnet privacy`
pub(super) fn show_privacy(out: Out, asked: &PrivacyArgs) -> Result<Exit, Fault> {
    match (asked.preset, asked.rounds) {
        (Some(preset), _) => Ok(network_privacy(out, preset)),
        (None, Some(rounds)) => service_privacy(out, asked, rounds),
        (None, None) => {
            let next = "name `--rounds N` or `--preset standard`";
            Err(Fault::new(Exit::Usage, "privacy: nothing to compute", next))
        }
    }
}

/// Prints the promise of a preset over one year of all services together (MIX-70).
fn network_privacy(out: Out, name: PresetName) -> Exit {
    let (text, preset) = match name {
        PresetName::Standard => ("standard", NoisePreset::Standard),
        PresetName::Relaxed => ("relaxed", NoisePreset::Relaxed),
        PresetName::Small => ("small", NoisePreset::Small),
    };
    let noise = preset.noise(Service::Conversation);
    let spent = Service::ALL.map(|service| {
        let noise = preset.noise(service);
        let law = Law { mode: Mode::Gauss, mu: noise.mu, scale: noise.scale };
        RoundsSpent { service, law, slots: 1, rounds: noise.rounds }
    });
    let epsilon = noise.epsilon;
    let delta = noise.delta;
    let promise = NetworkPromise { epsilon, delta, spent: spent.to_vec() };
    let year = promise.reached_after(1);
    let two_years = promise.reached_after(2);
    let alone = |spent: &RoundsSpent| reached_delta(&[*spent], epsilon);
    let services = spent.iter().map(|spent| {
        json!({
            "service": service_name(spent.service), "mu": spent.law.mu, "scale": spent.law.scale,
            "rounds": spent.rounds, "delta_alone": alone(spent),
        })
    });
    out.print_value(&json!({
        "preset": text, "epsilon": epsilon, "delta": delta, "services": services.collect::<Vec<_>>(),
        "delta_reached": year, "delta_after_two_years": two_years, "contacts": contacts_value(1),
    }));
    let most = 100.0 * fifty_becomes(epsilon);
    out.print_line(format!(
        "keeps    epsilon {epsilon:.4}, 50 % becomes at most {most:.0} %, but for a probability of delta:"
    ));
    for spent in &spent {
        let (name, Law { mu, scale, .. }) = (service_name(spent.service), spent.law);
        out.print_line(format!(
            "service  {name}: mu {mu}, scale {scale}, {} rounds a year: delta {:.3e} if it were alone",
            spent.rounds,
            alone(spent)
        ));
    }
    out.print_line(format!(
        "year     all services together: delta {year:.3e}, and {delta:.0e} is promised"
    ));
    out.print_line(format!(
        "later    after two years whose budgets are used up: delta {two_years:.3e}"
    ));
    out.print_line(contacts_line(1));
    Exit::Done
}

/// Returns how a partner perceives other conversations that use all slots, as measured: missed
/// rounds of 1,000, and the rounds within which 99 of 100 pairs miss their first one (rationale of
/// MIX-85).
const fn measured_absence(slots: u8) -> Option<[u32; 2]> {
    match slots {
        1 => Some([525, 7]),
        5 => Some([177, 30]),
        _ => None,
    }
}

/// Describes that noise does not hide from a contact that its partner serves another contact
/// (MIX-85).
fn contacts_line(slots: u8) -> String {
    let others = words::format_count(slots.into(), "other", "others");
    let measured = measured_absence(slots).map_or_else(String::new, |[missed, first]| {
        format!(" (measured: {missed} of 1,000, the first within {first} in 99 of 100 cases)")
    });
    let of = u32::from(slots) + 1;
    format!(
        "contacts not hidden from whoever you talk with: that you talk with {others} or more meanwhile, \
         as you miss 1 round in {of}{measured}"
    )
}

fn contacts_value(slots: u8) -> Value {
    let measured = measured_absence(slots);
    json!({
        "others_hidden": slots - 1,
        "missed_of_1000": measured.map(|[missed, _]| missed),
        "first_missed_within": measured.map(|[_, first]| first),
    })
}

const fn service_name(service: Service) -> &'static str {
    match service {
        Service::Conversation => "conversation",
        Service::Call => "call",
        Service::Invitation => "invitation",
    }
}

/// Prints the noise for a promise of one service, or the promise of a noise.
fn service_privacy(out: Out, asked: &PrivacyArgs, rounds: u64) -> Result<Exit, Fault> {
    let service = to_service(asked.service);
    if service != Service::Conversation && asked.slots != 1 {
        let text = "calls and invitations have one slot";
        return Err(Fault::new(Exit::Usage, text, "leave `--slots` away"));
    }
    let law = match asked.mu.zip(asked.scale) {
        Some((mu, scale)) => Law { mode: accounting_mode(asked.mode), mu, scale },
        None => least_noise(asked, service, rounds)?,
    };
    let spent = RoundsSpent { service, law, slots: asked.slots, rounds };
    let stories = [spent, spent.other_story()].map(|spent| Story::from_spent(spent, asked));
    let messages = figures::noise_messages(law, service, 1);
    let [idle, other] = &stories;
    out.print_value(&json!({
        "mu": law.mu, "scale": law.scale, "delta": idle.reached, "epsilon": asked.epsilon,
        "rounds": rounds, "messages": messages, "tight": idle.tight_value(),
        "other_story": {
            "rounds": other.rounds, "delta": other.reached, "tight": other.tight_value(),
        },
        "contacts": (service == Service::Conversation).then(|| contacts_value(asked.slots)),
    }));
    let most = 100.0 * fifty_becomes(asked.epsilon);
    out.print_line(format!("noise    mu {}, scale {}", law.mu, law.scale));
    out.print_line(format!(
        "costs    {messages} messages of each mix that adds noise, in each round"
    ));
    out.print_line(format!(
        "keeps    epsilon {:.4}, 50 % becomes at most {most:.0} %, but for a probability of delta:",
        asked.epsilon
    ));
    out.print_line(format!("against  \"I was idle\", {}", idle.format_line(asked.mode)));
    out.print_line(format!(
        "against  \"I talked with somebody else at other times\", {}",
        other.format_line(asked.mode)
    ));
    if service == Service::Conversation {
        out.print_line(contacts_line(asked.slots));
    }
    // Promises of single services do not cover a user of all services (MIX-70).
    out.print_line(
        "alone    the rounds of the other services add: `mezza mixnet privacy --preset standard`",
    );
    Ok(Exit::Done)
}

/// The promise of a noise against one story.
struct Story {
    /// The number of rounds that differ between this story and the true one.
    rounds: u64,
    /// The delta, by the chosen accountant.
    reached: f64,
    tight: Option<Bracket>,
}

impl Story {
    fn from_spent(spent: RoundsSpent, asked: &PrivacyArgs) -> Self {
        let reached = match asked.mode {
            args::AccountingName::Paper => advanced_delta(&[spent], asked.epsilon),
            _ => delta(&[spent], asked.epsilon),
        };
        Self { rounds: spent.rounds, reached, tight: tight_delta(&spent, asked.epsilon) }
    }

    fn tight_value(&self) -> Value {
        self.tight.map_or(Value::Null, |found| json!([found.low, found.high]))
    }

    fn format_line(&self, mode: args::AccountingName) -> String {
        let name =
            if matches!(mode, args::AccountingName::Paper) { "the paper's" } else { "Rényi's" };
        let tight = self.tight.map_or_else(
            || "tight: no figure".into(),
            |found| format!("tight {:.3e} to {:.3e}", found.low, found.high),
        );
        format!("{} rounds differ: {name} bound {:.3e}, {tight}", self.rounds, self.reached)
    }
}

fn least_noise(asked: &PrivacyArgs, service: Service, rounds: u64) -> Result<Law, Fault> {
    let epsilon = asked.epsilon;
    let delta = asked.delta;
    let target = PrivacyTarget { service, rounds, slots: asked.slots, epsilon, delta };
    let accounting = match asked.mode {
        args::AccountingName::Gauss => Accounting::Gauss,
        args::AccountingName::Rdp => Accounting::Laplace,
        args::AccountingName::Paper => Accounting::Paper,
    };
    noise_for(&target, accounting).ok_or_else(|| {
        let text = "privacy: no noise inside the limits keeps this promise";
        Fault::new(Exit::No, text, "ask for fewer rounds, or a larger epsilon or delta")
    })
}

const fn accounting_mode(accounting: args::AccountingName) -> Mode {
    match accounting {
        args::AccountingName::Gauss => Mode::Gauss,
        _ => Mode::Paper,
    }
}

const fn to_service(name: ServiceName) -> Service {
    match name {
        ServiceName::Conversation => Service::Conversation,
        ServiceName::Call => Service::Call,
        ServiceName::Invitation => Service::Invitation,
    }
}
