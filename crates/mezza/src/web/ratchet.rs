//! The conversations' cryptography, in numbers: for experts, no key among them.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Answer, Web, dto};

/// The handlers of this file.
pub fn routes() -> OpenApiRouter<Web> {
    OpenApiRouter::new().routes(routes!(ratchet))
}

/// Sessions and prekeys, without any key.
#[utoipa::path(get, path = "/v1/ratchet", responses((status = 200, body = dto::Ratchet)))]
async fn ratchet(State(web): State<Web>) -> Answer<dto::Ratchet> {
    web.node.ask(|desk| desk.ratchet()).await.map(Json)
}
