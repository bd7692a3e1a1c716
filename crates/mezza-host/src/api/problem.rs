//! Errors as RFC 9457 problems: a word, a sentence, and the next step.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::api::json::Problem;
use crate::api::{Exit, Refused};

/// Why a request was refused before its handler ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The Host header names another host: 421.
    Host,
    /// The request comes from a page of another site: HTTP status 403.
    Origin,
    /// The bearer token is missing or unknown: HTTP status 401.
    Bearer,
}

impl IntoResponse for Closed {
    fn into_response(self) -> Response {
        let (status, code, title, next) = match self {
            Self::Host => (
                421,
                "host",
                "this is not the host that was asked",
                "open the address that `mezza url` prints",
            ),
            Self::Origin => (
                403,
                "origin",
                "another site may not ask here",
                "open the address that `mezza url` prints",
            ),
            Self::Bearer => (
                401,
                "bearer",
                "who asks is not known",
                "open a new address: `mezza url` prints one, it works once",
            ),
        };
        make_response(&Problem {
            code: code.into(),
            title: title.into(),
            next: next.into(),
            status,
            exit: 77,
        })
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        make_response(&Problem {
            code: self.word.into(),
            status: http_status(&self),
            title: self.fault.text,
            next: self.fault.next,
            exit: self.fault.code.number(),
        })
    }
}

fn http_status(refused: &Refused) -> u16 {
    match refused.word {
        "locked" => return 423,
        "exists" => return 409,
        _ => {}
    }
    match refused.fault.code {
        Exit::Done | Exit::Bug | Exit::Config => 500,
        Exit::No => 409,
        Exit::Usage => 400,
        Exit::Malformed => 422,
        Exit::NotFound => 404,
        Exit::Unreachable => 503,
        Exit::CannotWrite => 507,
        Exit::Busy => 429,
        Exit::Denied => 403,
    }
}

fn make_response(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Json(problem)).into_response();
    let kind = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
