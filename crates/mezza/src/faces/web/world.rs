//! Handlers for carriers, pictures, observers and health.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{ApiResult, UrlQuery, Web};
use crate::faces::qr;
use mezza_host::api::{Exit, Fault, Refused, json};

/// The handlers of this file, except the one that takes large bodies.
pub(crate) fn routes() -> OpenApiRouter<Web> {
    OpenApiRouter::new().routes(routes!(carriers)).routes(routes!(observer)).routes(routes!(health))
}

/// Abilities of each carrier, and the facts that it hides from each observer.
#[utoipa::path(get, path = "/v1/carriers", responses((status = 200, body = json::Carriers)))]
async fn carriers(State(web): State<Web>) -> ApiResult<json::Carriers> {
    let carriers = web.node.ask(|shell| shell.list_carriers()).await?;
    Ok(Json(json::Carriers { carriers }))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Size {
    /// Pixels in a row.
    width: usize,
    /// Rows.
    height: usize,
}

/// Read a QR code from grey pixels, row by row, one byte each.
#[utoipa::path(post, path = "/v1/qr", params(Size),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = json::QrText), (status = 422, body = json::Problem)))]
pub(super) async fn read_qr(
    UrlQuery(size): UrlQuery<Size>,
    pixels: Bytes,
) -> ApiResult<json::QrText> {
    let read = move || qr::read_grey(&pixels, size.width, size.height);
    let read = tokio::task::spawn_blocking(read).await;
    let found = read.map_err(|_| Fault::bug("reading the picture failed"))?;
    let uri = found.map_err(|fault| Refused::new("no_code", fault))?;
    Ok(Json(json::QrText { uri }))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Since {
    /// Only events from this number on.
    since: Option<u64>,
}

/// The view of a provider, of the relay and of a thief.
#[utoipa::path(get, path = "/v1/observer", params(Since),
    responses((status = 200, body = json::ObserverJson), (status = 404, body = json::Problem)))]
async fn observer(
    State(web): State<Web>,
    UrlQuery(query): UrlQuery<Since>,
) -> ApiResult<json::ObserverJson> {
    let observer = web.observer.filter(|observer| observer.is_on()).ok_or_else(|| {
        let next = "turn it on under Settings, or start with `mezza node run --observe`";
        Refused::new("no_observer", Fault::new(Exit::NotFound, "the observer is off", next))
    })?;
    let since = query.since.unwrap_or(0);
    let seen = tokio::task::spawn_blocking(move || observer.events_since(since)).await;
    seen.map(Json).map_err(|_| Fault::bug("the observer failed").into())
}

/// The health of the node.
#[utoipa::path(get, path = "/v1/health", responses((status = 200, body = json::Health)))]
async fn health(State(web): State<Web>) -> ApiResult<json::Health> {
    let lines = web.node.ask(|shell| Ok(shell.health_lines())).await?;
    Ok(Json(json::Health { lines }))
}
