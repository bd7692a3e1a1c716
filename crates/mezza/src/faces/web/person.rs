//! Handlers for status, identity, lock, passphrase, and authentication.

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use mezza_core::Wiping;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::local_auth::FromOwner;
use super::{ApiResult, JsonBody, UrlQuery, Web};
use crate::faces::passphrase;
use crate::faces::qr::{Medium, QrImage};
use mezza_host::api::uri::relay_of;
use mezza_host::api::{Exit, Fault, Refused, json};
use mezza_host::process::rng::OsRng;

/// The handlers of this file.
pub(crate) fn routes() -> OpenApiRouter<Web> {
    OpenApiRouter::new()
        .routes(routes!(session))
        .routes(routes!(proof))
        .routes(routes!(ticket))
        .routes(routes!(status))
        .routes(routes!(trust_clock))
        .routes(routes!(create))
        .routes(routes!(words))
        .routes(routes!(unlock))
        .routes(routes!(lock))
        .routes(routes!(stop))
        .routes(routes!(me, renew))
        .routes(routes!(mesh_keys))
        .routes(routes!(card))
}

/// The header of a request caused by the user: a key, a click or a command. Pages and scripts send
/// other requests without it, for example after a note has arrived.
pub(crate) const PRESENCE: &str = "mezza-person";

/// Notifies the node of the user's activity, for requests of the owner with the header (MSG-83).
pub(crate) async fn notice_person(
    State(web): State<Web>,
    owner: Option<Extension<FromOwner>>,
    request: Request,
    next: Next,
) -> Response {
    if owner.is_some() && request.headers().contains_key(PRESENCE) {
        web.node.touch();
    }
    next.run(request).await
}

/// Exchange a one-time ticket for a bearer.
#[utoipa::path(post, path = "/v1/session", request_body = json::SessionRequest,
    responses((status = 200, body = json::BearerJson), (status = 403, body = json::Problem)))]
async fn session(
    State(web): State<Web>,
    JsonBody(body): JsonBody<json::SessionRequest>,
) -> ApiResult<json::BearerJson> {
    let bearer = web.auth.exchange_ticket(&body.ticket, &mut OsRng).ok_or_else(|| {
        let text = "this address was used already, or is not ours";
        Refused::new("ticket", Fault::new(Exit::Denied, text, "`mezza url` prints a new one"))
    })?;
    let proof_key = web.auth.proof_key();
    Ok(Json(json::BearerJson { bearer, proof_key, command: web.home.format_command("url") }))
}

/// Prove that this is the launch that gave a tab its bearer token.
#[utoipa::path(post, path = "/v1/proof", request_body = json::ProofRequest,
    responses((status = 200, body = json::ProofJson), (status = 422, body = json::Problem)))]
async fn proof(
    State(web): State<Web>,
    JsonBody(body): JsonBody<json::ProofRequest>,
) -> ApiResult<json::ProofJson> {
    let mac = web.auth.prove_launch(&body.challenge);
    let malformed = || Refused::malformed("the challenge is malformed", "send 64 hex digits");
    mac.map(|mac| Json(json::ProofJson { mac })).ok_or_else(malformed)
}

/// Make a new one-time address.
#[utoipa::path(post, path = "/v1/ticket", responses((status = 200, body = json::TicketUrl)))]
async fn ticket(State(web): State<Web>) -> ApiResult<json::TicketUrl> {
    Ok(Json(json::TicketUrl { url: web.auth.ticket_url(&mut OsRng) }))
}

/// The state of the program.
#[utoipa::path(get, path = "/v1/status", responses((status = 200, body = json::StatusJson)))]
async fn status(State(web): State<Web>) -> ApiResult<json::StatusJson> {
    web.node.ask(|shell| Ok(shell.status())).await.map(Json)
}

/// Trust the clock of this machine, although it has jumped by more than a day.
#[utoipa::path(post, path = "/v1/clock", responses((status = 200, body = json::StatusJson)))]
async fn trust_clock(State(web): State<Web>) -> ApiResult<json::StatusJson> {
    let status = web.node.ask(|shell| {
        shell.trust_clock();
        Ok(shell.status())
    });
    status.await.map(Json)
}

/// Make an identity and unlock it.
#[utoipa::path(post, path = "/v1/create", request_body = json::CreateRequest,
    responses((status = 201, body = json::StatusJson), (status = 409, body = json::Problem)))]
async fn create(
    State(web): State<Web>,
    JsonBody(body): JsonBody<json::CreateRequest>,
) -> Result<(StatusCode, Json<json::StatusJson>), Refused> {
    let pass = Wiping::new(body.passphrase.into_bytes());
    passphrase::check_new(&pass)
        .map_err(|fault| Refused::new("passphrase_short", Fault { code: Exit::Usage, ..fault }))?;
    // A restore makes the vault of this home.
    web.work.check_idle()?;
    let relay = body.relay.filter(|relay| !relay.trim().is_empty());
    let relay = relay.as_deref().map(relay_of).transpose()?;
    let status = web.node.ask(move |shell| {
        shell.create_identity(&body.name, &pass, relay.as_slice())?;
        Ok(shell.status())
    });
    Ok((StatusCode::CREATED, Json(status.await?)))
}

/// Six words to use as a passphrase.
#[utoipa::path(get, path = "/v1/words", responses((status = 200, body = json::PassphraseJson)))]
async fn words() -> ApiResult<json::PassphraseJson> {
    let words = passphrase::draw_words(&mut OsRng);
    Ok(Json(json::PassphraseJson { words: words.iter().map(ToString::to_string).collect() }))
}

/// Unlock the vault.
#[utoipa::path(post, path = "/v1/unlock", request_body = json::UnlockRequest,
    responses((status = 200, body = json::StatusJson), (status = 403, body = json::Problem)))]
async fn unlock(
    State(web): State<Web>,
    JsonBody(body): JsonBody<json::UnlockRequest>,
) -> ApiResult<json::StatusJson> {
    let pass = Wiping::new(body.passphrase.into_bytes());
    let status = web.node.ask(move |shell| {
        shell.unlock_vault(&pass)?;
        Ok(shell.status())
    });
    status.await.map(Json)
}

/// Lock the vault.
#[utoipa::path(post, path = "/v1/lock", responses((status = 200, body = json::StatusJson)))]
async fn lock(State(web): State<Web>) -> ApiResult<json::StatusJson> {
    let status = web.node.ask(|shell| {
        shell.lock_vault();
        Ok(shell.status())
    });
    status.await.map(Json)
}

/// Lock the vault and end the program.
#[utoipa::path(post, path = "/v1/stop", responses((status = 202)))]
async fn stop(State(web): State<Web>) -> StatusCode {
    // Delay the stop so that the response is sent.
    tokio::spawn(async move {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        let _ = web.stop.send(true);
    });
    StatusCode::ACCEPTED
}

/// Our own identity.
#[utoipa::path(get, path = "/v1/me", responses((status = 200, body = json::MeJson)))]
async fn me(State(web): State<Web>) -> ApiResult<json::MeJson> {
    web.node.ask(|shell| shell.own_identity()).await.map(Json)
}

/// Make a new card with another name or other relays, and send it to the contacts.
#[utoipa::path(patch, path = "/v1/me", request_body = json::RenewRequest,
    responses((status = 200, body = json::MeJson), (status = 400, body = json::Problem)))]
async fn renew(
    State(web): State<Web>,
    JsonBody(body): JsonBody<json::RenewRequest>,
) -> ApiResult<json::MeJson> {
    let read = |relays: Vec<String>| relays.iter().map(|uri| relay_of(uri)).collect();
    let relays = body.relays.map(read).transpose()?;
    web.node.ask(|shell| shell.renew_card(body.name, relays)).await.map(Json)
}

/// Make keys for the mesh, if there are none, and put them on the card.
#[utoipa::path(post, path = "/v1/me/mesh", request_body = json::MeshKeysRequest,
    responses((status = 200, body = json::MeJson), (status = 409, body = json::Problem)))]
async fn mesh_keys(
    State(web): State<Web>,
    JsonBody(body): JsonBody<json::MeshKeysRequest>,
) -> ApiResult<json::MeJson> {
    web.node.ask(move |shell| shell.make_mesh_keys(body.confirmed)).await.map(Json)
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct CardQuery {
    /// The parts of the card that are returned.
    #[serde(default)]
    form: json::CardFormJson,
    /// `uri` (JSON) or `svg` (a QR code).
    #[serde(default, rename = "as")]
    shape: Shape,
}

/// The form in which a card is returned.
#[derive(Clone, Copy, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum Shape {
    #[default]
    Uri,
    Svg,
}

/// Our card.
#[utoipa::path(get, path = "/v1/me/card", params(CardQuery), responses(
    (status = 200, content((json::CardText = "application/json"), (String = "image/svg+xml")))))]
async fn card(State(web): State<Web>, query: UrlQuery<CardQuery>) -> Result<Response, Refused> {
    let UrlQuery(CardQuery { form, shape }) = query;
    let card = web.node.ask(move |shell| shell.card_text(form)).await?;
    match shape {
        Shape::Uri => Ok(Json(card).into_response()),
        Shape::Svg => {
            let svg = QrImage::draw(&card.uri, Medium::Screen)?.to_svg();
            Ok(([(header::CONTENT_TYPE, "image/svg+xml")], svg).into_response())
        }
    }
}
