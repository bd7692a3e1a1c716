//! `mezza mixnet privacy`: noise for a promise, or the promise of a noise.

use mezza_mixnet::Service;
use mezza_mixnet::config::Mode;
use mezza_mixnet::noise::Law;
use mezza_mixnet::privacy::{Accounting, Spent, Target, advanced, delta, fifty_becomes, noise_for};
use serde_json::json;

use crate::cli::args::{self, Privacy, ServiceName};
use crate::cli::show::Out;
use crate::exit::{Exit, Fault};
use crate::mixnet::figures;

/// `mezza mixnet privacy`
pub fn privacy(out: Out, asked: &Privacy) -> Result<Exit, Fault> {
    let service = service(asked.service);
    if service != Service::Conversation && asked.slots != 1 {
        let text = "calls and invitations have one slot";
        return Err(Fault::new(Exit::Usage, text, "leave `--slots` away"));
    }
    let law = match asked.mu.zip(asked.scale) {
        Some((mu, scale)) => Law { mode: mode(asked.mode), mu, scale },
        None => least(asked, service)?,
    };
    let spent = [Spent { service, law, slots: asked.slots, rounds: asked.rounds }];
    let reached = match asked.mode {
        args::Accounting::Paper => advanced(&spent, asked.epsilon),
        _ => delta(&spent, asked.epsilon),
    };
    let messages = figures::noise_messages(law, service, 1);
    let most = 100.0 * fifty_becomes(asked.epsilon);
    out.value(&json!({
        "mu": law.mu, "scale": law.scale, "delta": reached, "epsilon": asked.epsilon,
        "rounds": asked.rounds, "messages": messages,
    }));
    out.line(format!("noise    mu {}, scale {}", law.mu, law.scale));
    out.line(format!("costs    {messages} messages of each mix that adds noise, in each round"));
    out.line(format!(
        "keeps    epsilon {:.4}, delta {reached:.3e} over {} rounds: 50 % becomes at most {most:.0} %",
        asked.epsilon, asked.rounds
    ));
    Ok(Exit::Done)
}

fn least(asked: &Privacy, service: Service) -> Result<Law, Fault> {
    let (epsilon, delta) = (asked.epsilon, asked.delta);
    let target = Target { service, rounds: asked.rounds, slots: asked.slots, epsilon, delta };
    let accounting = match asked.mode {
        args::Accounting::Gauss => Accounting::Gauss,
        args::Accounting::Rdp => Accounting::Laplace,
        args::Accounting::Paper => Accounting::Paper,
    };
    noise_for(&target, accounting).ok_or_else(|| {
        let text = "privacy: no noise inside the limits keeps this promise";
        Fault::new(Exit::No, text, "ask for fewer rounds, or a larger epsilon or delta")
    })
}

const fn mode(accounting: args::Accounting) -> Mode {
    match accounting {
        args::Accounting::Gauss => Mode::Gauss,
        _ => Mode::Paper,
    }
}

const fn service(name: ServiceName) -> Service {
    match name {
        ServiceName::Conversation => Service::Conversation,
        ServiceName::Call => Service::Call,
        ServiceName::Invitation => Service::Invitation,
    }
}
