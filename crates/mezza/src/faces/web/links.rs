//! Pairings with the devices of contacts, and the guard on the way to them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use mezza_guard::keys::PairingKey;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use zeroize::Zeroizing;

use super::{ApiResult, JsonBody, Web};
use crate::node::shell::NodeShell;
use mezza_host::api::views::contact_id;
use mezza_host::api::{Exit, Fault, Refused, json};

/// The handlers of this file.
pub(crate) fn routes() -> OpenApiRouter<Web> {
    OpenApiRouter::new()
        .routes(routes!(pairing, begin, end))
        .routes(routes!(digits))
        .routes(routes!(address))
        .routes(routes!(join_guard))
        .routes(routes!(leave_guard))
        .routes(routes!(lead_through_guard))
}

/// The pairing in progress, or the last one since the vault was unlocked.
#[utoipa::path(get, path = "/v1/links/pairing",
    responses((status = 200, body = json::LinkPairingJson), (status = 423, body = json::Problem)))]
async fn pairing(State(web): State<Web>) -> ApiResult<json::LinkPairingJson> {
    web.node.ask(|shell| shell.describe_pairing()).await.map(Json)
}

/// Pair with the device of a contact: both users compare six digits.
#[utoipa::path(post, path = "/v1/links/pairing", request_body = json::LinkPairRequest,
    responses((status = 204), (status = 404, body = json::Problem), (status = 409, body = json::Problem)))]
async fn begin(
    State(web): State<Web>,
    JsonBody(request): JsonBody<json::LinkPairRequest>,
) -> Result<StatusCode, Refused> {
    let contact = contact_id(&request.contact)?;
    web.node.ask(move |shell| shell.begin_pairing(contact, request.address)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// End the pairing in progress.
#[utoipa::path(delete, path = "/v1/links/pairing",
    responses((status = 204), (status = 423, body = json::Problem)))]
async fn end(State(web): State<Web>) -> Result<StatusCode, Refused> {
    web.node.ask(NodeShell::cancel_pairing).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Decide about the digits: equal on both devices, or not.
#[utoipa::path(post, path = "/v1/links/pairing/digits", request_body = json::LinkDigitsRequest,
    responses((status = 204), (status = 409, body = json::Problem)))]
async fn digits(
    State(web): State<Web>,
    JsonBody(request): JsonBody<json::LinkDigitsRequest>,
) -> Result<StatusCode, Refused> {
    web.node.ask(move |shell| shell.confirm_pairing(request.equal)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Set the address of a paired device.
#[utoipa::path(post, path = "/v1/links/address", request_body = json::LinkAddressRequest,
    responses((status = 204), (status = 409, body = json::Problem)))]
async fn address(
    State(web): State<Web>,
    JsonBody(request): JsonBody<json::LinkAddressRequest>,
) -> Result<StatusCode, Refused> {
    let contact = contact_id(&request.contact)?;
    web.node.ask(move |shell| shell.set_link_address(contact, request.address)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Join a guard. The code is checked for typing errors; the guard proves that it has it at the first
/// connection.
#[utoipa::path(post, path = "/v1/guard/join", request_body = json::GuardJoinRequest,
    responses((status = 204), (status = 422, body = json::Problem)))]
async fn join_guard(
    State(web): State<Web>,
    JsonBody(request): JsonBody<json::GuardJoinRequest>,
) -> Result<StatusCode, Refused> {
    let code = Zeroizing::new(request.code);
    let key = PairingKey::from_code(&code).map_err(|error| {
        let next = "run `mezza guard pair` on the guard for another code";
        Refused::new("guard_code", Fault::new(Exit::Malformed, error.to_string(), next))
    })?;
    let key = key.into_secret();
    web.node.ask(move |shell| shell.join_guard(request.address, key)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Leave the guard. Contacts with a destination are not dialled until a guard is joined again, or
/// their destination is taken away.
#[utoipa::path(post, path = "/v1/guard/leave",
    responses((status = 204), (status = 409, body = json::Problem)))]
async fn leave_guard(State(web): State<Web>) -> Result<StatusCode, Refused> {
    web.node.ask(NodeShell::leave_guard).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lead the link to a contact through the guard.
#[utoipa::path(post, path = "/v1/links/guard", request_body = json::LinkGuardRequest,
    responses((status = 204), (status = 409, body = json::Problem)))]
async fn lead_through_guard(
    State(web): State<Web>,
    JsonBody(request): JsonBody<json::LinkGuardRequest>,
) -> Result<StatusCode, Refused> {
    let contact = contact_id(&request.contact)?;
    web.node.ask(move |shell| shell.set_guard_dest(contact, request.dest)).await?;
    Ok(StatusCode::NO_CONTENT)
}
