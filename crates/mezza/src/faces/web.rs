//! The HTTP interface and the page, on loopback only (WEB-1 to WEB-8).

pub(crate) mod backup;
pub(crate) mod contacts;
pub(crate) mod drafts;
pub(crate) mod events;
pub(crate) mod guard;
pub(crate) mod leak;
pub(crate) mod links;
pub(crate) mod local_auth;
pub(crate) mod long_work;
pub(crate) mod mesh;
pub(crate) mod mixnet;
pub(crate) mod moving;
pub(crate) mod notes;
pub(crate) mod page;
pub(crate) mod person;
pub(crate) mod ratchet;
pub(crate) mod seats;
pub(crate) mod settings;
pub(crate) mod world;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::{Json, Router, middleware};
use mezza_messenger::Input;
use serde::de::DeserializeOwned;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::faces::ports;
use crate::faces::relay_beside::RelayBeside;
use crate::node::NodeHandle;
use crate::node::observer::Observer;
use local_auth::LocalAuth;
use long_work::LongWork;
use mezza_host::api::{Exit, Fault, Refused, json};
use mezza_host::process::home::Home;
use mezza_host::process::local_socket;
use seats::{Caller, SeatedListener, Seats};

/// Maximum size of a request body without a picture, in bytes.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Maximum size of a picture, in bytes: grey, 16 million pixels.
const PICTURE_BYTES_MAX: usize = 16 << 20;

/// The state that handlers share.
#[derive(Clone)]
pub(crate) struct Web {
    /// The node.
    pub node: NodeHandle,
    /// Checks the tickets and bearers of requests.
    pub auth: Arc<LocalAuth>,
    /// The observer, which may be off.
    pub observer: Option<Arc<Observer>>,
    /// The home, for its settings and its relay.
    pub home: Home,
    /// The relay that runs in this program, if any.
    pub relay: Arc<RelayBeside>,
    /// Work on backups that a page waits for.
    pub work: LongWork,
    /// Becomes true when the program must stop.
    pub stop: watch::Sender<bool>,
}

impl Web {
    /// Runs a command of the device; the response has no body.
    pub(crate) async fn run_command(&self, input: impl Into<Input>) -> Result<StatusCode, Refused> {
        let input = input.into();
        self.node.ask(move |shell| shell.run_command(input)).await?;
        Ok(StatusCode::NO_CONTENT)
    }
}

/// The result of a handler.
pub(crate) type ApiResult<T> = Result<Json<T>, Refused>;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Mezzavoce, one device",
        description = "Loopback only. All but the page and \
        `POST /v1/session` want `Authorization: Bearer ..`. Errors are RFC 9457 problems."
    ),
    components(schemas(json::Problem, json::EventJson))
)]
struct Description;

/// Returns the routes without their state, and their OpenAPI description.
pub(crate) fn build_interface() -> (Router<Web>, utoipa::openapi::OpenApi) {
    let open = OpenApiRouter::with_openapi(Description::openapi());
    let pictures = OpenApiRouter::new()
        .routes(routes!(world::read_qr))
        .layer(DefaultBodyLimit::max(PICTURE_BYTES_MAX));
    let all = open
        .merge(person::routes())
        .merge(backup::routes())
        .merge(moving::routes())
        .merge(contacts::routes())
        .merge(notes::routes())
        .merge(world::routes())
        .merge(ratchet::routes())
        .merge(mixnet::routes())
        .merge(mesh::routes())
        .merge(guard::routes())
        .merge(leak::routes())
        .merge(links::routes())
        .merge(settings::routes())
        .merge(drafts::routes())
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .merge(pictures);
    let (router, mut description) = all.split_for_parts();
    description.info.version = "1".into();
    (router.route("/v1/events", axum::routing::get(events::listen)), description)
}

/// Returns the OpenAPI description as stored in the repository.
///
/// # Errors
/// None in practice: no input is involved.
pub fn describe_interface() -> Result<String, Fault> {
    let (_, description) = build_interface();
    let text = description.to_pretty_json();
    text.map(|text| text + "\n").map_err(|_| Fault::bug("the interface cannot be described"))
}

/// Returns the router of everything that is served.
pub(crate) fn build_router(web: Web) -> Router {
    let (router, description) = build_interface();
    let text = description.to_pretty_json().unwrap_or_default() + "\n";
    let json = [(axum::http::header::CONTENT_TYPE, "application/json")];
    let describe = axum::routing::get(move || async move { (json, text.clone()) });
    let auth = Arc::clone(&web.auth);
    router
        .route("/openapi.json", describe)
        .fallback(axum::routing::get(page::serve_file))
        .layer(middleware::from_fn_with_state(web.clone(), person::notice_person))
        .with_state(web)
        .layer(middleware::from_fn_with_state(auth, local_auth::check_request))
}

/// The listening sockets: one port on IPv4, on IPv6 if available, and the owner's socket in `run/`.
pub(crate) struct Sockets {
    /// The TCP port that was bound.
    pub port: u16,
    listeners: Vec<TcpListener>,
    owner: UnixListener,
}

impl Sockets {
    /// Binds the requested port on loopback, or the next free one that is no default port (NODE-3,
    /// MSG-82); 0 takes any.
    ///
    /// # Errors
    /// If all tried ports are taken.
    pub(crate) async fn bind(wish: u16, owner: &Path) -> Result<Self, Fault> {
        let owner = local_socket::listen_at(owner)?;
        let owner =
            UnixListener::from_std(owner).map_err(|_| Fault::bug("no socket is watched"))?;
        for port in ports::candidates(wish) {
            if let Some((port, listeners)) = bind_both(port).await {
                return Ok(Self { port, listeners, owner });
            }
        }
        let text = format!("port {wish} and those after it are taken");
        Err(Fault::new(Exit::Busy, text, "choose another with `--listen 127.0.0.1:PORT`"))
    }

    /// Serves until the program stops.
    pub(crate) async fn serve(self, web: Web) {
        let mut stop = web.stop.subscribe();
        // Build the service once: a bare router is rebuilt for each connection, which costs more
        // than a call.
        let service = build_router(web).into_make_service_with_connect_info::<Caller>();
        let seats = Seats::default();
        let mut tasks = tokio::task::JoinSet::new();
        for listener in self.listeners {
            let listener = SeatedListener::new(listener, seats.clone());
            tasks.spawn(axum::serve(listener, service.clone()).into_future());
        }
        // Separate seats: connections to the TCP port never keep the owner's commands out.
        let owner = SeatedListener::new(self.owner, Seats::default());
        tasks.spawn(axum::serve(owner, service).into_future());
        // Abort: open WebSockets would delay a graceful end, and everything accepted is durable
        // already.
        let _ = stop.wait_for(|stop| *stop).await;
        tasks.shutdown().await;
    }
}

/// Binds a port on both loopback addresses. Returns `None` if one of them is taken.
async fn bind_both(port: u16) -> Option<(u16, Vec<TcpListener>)> {
    let v4 = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.ok()?;
    let port = v4.local_addr().ok()?.port();
    match TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await {
        Ok(v6) => Some((port, vec![v4, v6])),
        // Another program has the port on IPv6: a browser could reach its page instead of ours.
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => None,
        Err(_) => Some((port, vec![v4])),
    }
}

/// A JSON body; a malformed one is refused with a problem document.
pub(crate) struct JsonBody<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        match Json::<T>::from_request(request, state).await {
            Ok(Json(value)) => Ok(Self(value)),
            Err(_) => Err(Refused::malformed(
                "the request is not what this address takes",
                "see /openapi.json for its fields",
            )),
        }
    }
}

/// The query of a URL; a malformed one is refused with a problem document.
pub(crate) struct UrlQuery<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for UrlQuery<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(value)) => Ok(Self(value)),
            Err(_) => Err(Refused::malformed(
                "the address has a part that cannot be read",
                "see /openapi.json for its parameters",
            )),
        }
    }
}
