//! Handlers for settings that the user may change: passphrase, idle lock, observer. Also offers the
//! relay of this home (WEB-10). Name and relay of our card are `PATCH /v1/me`.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use mezza_core::Wiping;
use mezza_messenger::card::RelayEntry;
use mezza_messenger::relay_wire::MailboxAddress;
use mezza_messenger::uri;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{ApiResult, JsonBody, Web};
use crate::faces::cli::relay::{public_of, relay_config};
use crate::faces::config::{self, LoadedSettings};
use crate::faces::passphrase;
use mezza_host::api::{Exit, Fault, Refused, json, views};
use mezza_host::process::home::Home;
use mezza_servers::relay;

/// The handlers of this file.
pub(crate) fn routes() -> OpenApiRouter<Web> {
    OpenApiRouter::new()
        .routes(routes!(change_passphrase))
        .routes(routes!(set))
        .routes(routes!(relay_here, run_relay))
}

/// Seal the vault under another passphrase. 204 means that it opens the vault, even after a crash.
#[utoipa::path(post, path = "/v1/passphrase", request_body = json::PassphraseRequest,
    responses((status = 204), (status = 403, body = json::Problem)))]
async fn change_passphrase(
    State(web): State<Web>,
    JsonBody(body): JsonBody<json::PassphraseRequest>,
) -> Result<StatusCode, Refused> {
    let old = Wiping::new(body.old.into_bytes());
    let new = Wiping::new(body.new.into_bytes());
    passphrase::check_new(&new)
        .map_err(|fault| Refused::new("passphrase_short", Fault { code: Exit::Usage, ..fault }))?;
    web.node.ask(move |shell| shell.change_passphrase(&old, &new)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Change settings of the program. Absent fields stay unchanged. `config.toml` stores them.
#[utoipa::path(patch, path = "/v1/settings", request_body = json::SettingsPatch,
    responses((status = 200, body = json::StatusJson), (status = 400, body = json::Problem)))]
async fn set(
    State(web): State<Web>,
    JsonBody(patch): JsonBody<json::SettingsPatch>,
) -> ApiResult<json::StatusJson> {
    let json::SettingsPatch { idle_lock_s, observe } = patch;
    web.node.ask(move |shell| shell.may_set(idle_lock_s)).await?;
    let idle = idle_lock_s.map(|s| ("idle_lock_s", s.to_string()));
    let kept: Vec<_> =
        idle.into_iter().chain(observe.map(|on| ("observe", on.to_string()))).collect();
    // Store first, so that the reported settings are also those of the next start.
    config::store_settings(&web.home.config(), &kept)?;
    let status = web.node.ask(move |shell| {
        shell.adopt_settings(idle_lock_s, observe);
        Ok(shell.status())
    });
    status.await.map(Json)
}

/// The relay in this home, if it has an address that others can reach.
#[utoipa::path(get, path = "/v1/relay", responses((status = 200, body = json::RelayHere)))]
async fn relay_here(State(web): State<Web>) -> ApiResult<json::RelayHere> {
    let looked = tokio::task::spawn_blocking(move || find_offer(&web.home)).await;
    Ok(Json(json::RelayHere { relay: looked.ok().flatten() }))
}

/// Make the relay of this home, if there is none, and run it whenever the node runs.
#[utoipa::path(post, path = "/v1/relay", request_body = json::RelayStart,
    responses((status = 200, body = json::RelayHere), (status = 409, body = json::Problem)))]
async fn run_relay(
    State(web): State<Web>,
    JsonBody(body): JsonBody<json::RelayStart>,
) -> ApiResult<json::RelayHere> {
    let public = body.public.as_deref().map(str::trim).filter(|public| !public.is_empty());
    web.relay.set_up(&web.home, public).await?;
    relay_here(State(web)).await
}

/// Returns the relay of a home with the address for users: the one given, else where it listens. A
/// relay on all addresses has no single address to offer.
fn find_offer(home: &Home) -> Option<json::RelayOffer> {
    // The relay's process has its own environment, so ignore this one.
    let settings = LoadedSettings::load(&home.config(), std::iter::empty(), &[]).ok()?.settings;
    let config = relay_config(home, &settings).ok()?;
    let key = relay::read_key(&config.dir).ok()?;
    let running = relay::running_address(&config.dir);
    let listen = running.unwrap_or(config.listen);
    let public = public_of(&settings).ok()?;
    let own = public.is_none().then_some(listen.ip());
    if own.is_some_and(|ip| ip.is_unspecified()) {
        return None;
    }
    let (host, port) = public.unwrap_or_else(|| (listen.ip().to_string(), listen.port()));
    let uri = uri::encode_relay(&key, port, &host, false).ok()?;
    let entry = RelayEntry { key, address: MailboxAddress([0; 16]), port, host };
    let only_here = own.is_some_and(|ip| ip.is_loopback());
    Some(json::RelayOffer {
        uri,
        relay: views::describe_relay(&entry),
        up: running.is_some(),
        only_here,
    })
}
