//! Session and prekey state of conversations in numbers, for experts; no key is included.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use mezza_messenger::Command;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{ApiResult, Web};
use mezza_host::api::views::contact_id;
use mezza_host::api::{Refused, json};

/// The handlers of this file.
pub(crate) fn routes() -> OpenApiRouter<Web> {
    OpenApiRouter::new()
        .routes(routes!(ratchet))
        .routes(routes!(reset))
        .routes(routes!(rotate))
        .routes(routes!(refill))
}

/// Sessions and prekeys, without any key.
#[utoipa::path(get, path = "/v1/ratchet", responses((status = 200, body = json::RatchetJson)))]
async fn ratchet(State(web): State<Web>) -> ApiResult<json::RatchetJson> {
    web.node.ask(|shell| shell.ratchet()).await.map(Json)
}

/// Archive the session with a contact; the next note begins a new one.
#[utoipa::path(post, path = "/v1/contacts/{id}/reset", params(("id" = String, Path, description = "Its number")),
    responses((status = 204), (status = 404, body = json::Problem)))]
async fn reset(State(web): State<Web>, Path(id): Path<String>) -> Result<StatusCode, Refused> {
    let contact = contact_id(&id)?;
    web.run_command(Command::Reset { contact }).await
}

/// Make fresh signed prekeys and one-time keys now, before their time.
#[utoipa::path(post, path = "/v1/ratchet/rotate", responses((status = 204)))]
async fn rotate(State(web): State<Web>) -> Result<StatusCode, Refused> {
    web.run_command(Command::Rotate).await
}

/// Fill up the one-time keys at the relay.
#[utoipa::path(post, path = "/v1/ratchet/refill", responses((status = 204)))]
async fn refill(State(web): State<Web>) -> Result<StatusCode, Refused> {
    web.run_command(Command::Refill).await
}
