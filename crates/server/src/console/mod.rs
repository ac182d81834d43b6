//! `/console`: a page for operators on the operations port, and the calls that it makes. The page holds no
//! data. Its calls are answered by the edge, as on the gRPC port: by the key that the person enters, with
//! the caller's rights, quotas and security events.
//!
//! The port has no TLS, so a key must not reach it over a network, and no other page may use it. Therefore
//! page and calls are only for a browser that opened `localhost`: on this machine, or through a tunnel that
//! encrypts. On a node without callers, calls must also come from this machine.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use http::{HeaderValue, Method, Request, Response};
use kith_service::error::{Error, Reason};
use tonic::Status;

use crate::{
    edge::{ConnectionUnread, Edge, RequestBody, UnreadFull, too_much_unread},
    json::{self, BodyLimits},
    page::{CSS, HTML, JAVASCRIPT, Page},
    places::RemotePeer,
    transport::{is_of_the_same_origin, names_this_machine},
};

/// Nothing from other origins, nothing inline, no text that becomes markup, no frame in another page.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
);

static FILES: [(&str, HeaderValue, &str); 9] = [
    ("/console", HTML, include_str!("page/index.html")),
    ("/console/style.css", CSS, include_str!("page/style.css")),
    ("/console/app.js", JAVASCRIPT, include_str!("page/app.js")),
    ("/console/age.js", JAVASCRIPT, include_str!("page/age.js")),
    ("/console/calls.js", JAVASCRIPT, include_str!("page/calls.js")),
    ("/console/form.js", JAVASCRIPT, include_str!("page/form.js")),
    ("/console/nodes.js", JAVASCRIPT, include_str!("page/nodes.js")),
    ("/console/record.js", JAVASCRIPT, include_str!("page/record.js")),
    ("/console/view.js", JAVASCRIPT, include_str!("page/view.js")),
];

static PAGE: Page = Page { root: "/console", policy: POLICY, files: &FILES };

/// The console for one connection to the operations port. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Console {
    edge: Edge,
    unread: Arc<ConnectionUnread>,
    limits: BodyLimits,
    /// Whether the connection comes from this machine, or its calls need a key.
    may_call: bool,
}

impl Console {
    /// Creates it for a connection from this peer.
    pub(crate) fn of_connection(
        edge: &Edge,
        limits: BodyLimits,
        peer: Arc<RemotePeer>,
        is_of_this_machine: bool,
    ) -> Self {
        let (edge, unread) = edge.of_connection(peer, None);
        let may_call = is_of_this_machine || !edge.is_open();
        Self { edge, unread, limits, may_call }
    }

    /// Whether a request is for the page or its files, or a call: `POST /SERVICE/METHOD`.
    pub(crate) fn takes<B>(request: &Request<B>) -> bool {
        let path = request.uri().path();
        PAGE.has(path) || (request.method() == Method::POST && path.matches('/').count() == 2)
    }

    /// Answers a request that [`Self::takes`] names.
    pub(crate) async fn answer<B: RequestBody>(&self, request: Request<B>) -> Response<Body> {
        if !self.may_call || !names_this_machine(&request) || !is_of_the_same_origin(request.headers()) {
            return json::refuse(request, &refused());
        }
        if PAGE.has(request.uri().path()) {
            return PAGE.answer(&request);
        }
        self.counted(json::answer(&self.edge, self.limits, request).await).await
    }

    /// Counts the answer as unread until it is written, or replaces it by an error if there is no room.
    async fn counted(&self, response: Response<Body>) -> Response<Body> {
        let (head, body) = response.into_parts();
        // The answer is in memory already: the edge bounds its size.
        let Ok(bytes) = to_bytes(body, usize::MAX).await else { return json::failure(&too_much_unread()) };
        match self.unread.hold(bytes) {
            Ok(bytes) => Response::from_parts(head, Body::from(bytes)),
            Err(UnreadFull) => json::failure(&too_much_unread()),
        }
    }
}

/// The answer to other pages, and to browsers that opened another host.
fn refused() -> Status {
    let text = "the console is for a browser that opens it at localhost: on the node's machine, or through ssh -L or \
                kubectl port-forward";
    Error::new(Reason::OriginRefused, text).into()
}

#[cfg(test)]
mod tests {
    use http::{StatusCode, header};

    use super::*;
    use crate::{config::LimitsConfig, edge::Routes};

    const CALL: &str = "/kith.admin.v1.AdminService/GetNode";

    #[test]
    fn every_file_that_the_page_names_is_served() {
        PAGE.assert_serves_the_files_that_it_names();
    }

    #[test]
    fn page_loads_and_runs_only_its_own_files() {
        PAGE.assert_loads_and_runs_only_its_own_files();
        for (file, _, text) in &FILES {
            for kept in ["localStorage", "sessionStorage", "indexedDB", "cookie", "location"] {
                assert!(!text.contains(kept), "{file} could keep the key: {kept}");
            }
        }
    }

    #[test]
    fn page_and_calls_are_taken_and_nothing_else() {
        let takes = |method: &str, path: &str| {
            Console::takes(&Request::builder().method(method).uri(path).body(()).unwrap())
        };
        assert!(takes("GET", "/console") && takes("GET", "/console/app.js") && takes("POST", CALL));
        for path in ["/", "/metrics", "/readyz", "/consoles", CALL] {
            assert!(!takes("GET", path), "{path}");
        }
        assert!(!takes("POST", "/readyz") && !takes("OPTIONS", CALL));
    }

    async fn code(is_of_this_machine: bool, path: &str, headers: &[(&str, &str)]) -> StatusCode {
        let limits = LimitsConfig::default();
        let edge = Edge::new(Routes::default(), &limits);
        let (limits, peer) = (BodyLimits::of(&limits), RemotePeer::internal());
        let console = Console::of_connection(&edge, limits, peer, is_of_this_machine);
        let method = if path == CALL { Method::POST } else { Method::GET };
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request = request.header(header::CONTENT_TYPE, "application/json");
        console.answer(request.body(Body::from("{}")).unwrap()).await.status()
    }

    #[tokio::test]
    async fn only_a_browser_at_localhost_is_answered() {
        let local = ("host", "localhost:8601");
        for path in ["/console", CALL] {
            // The node of this test is starting: the edge answers a call with UNAVAILABLE.
            let answered = if path == CALL { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
            assert_eq!(code(true, path, &[local]).await, answered);
            assert_eq!(code(true, path, &[local, ("origin", "http://localhost:8601")]).await, answered);
            for other in ["http://localhost:3000", "https://localhost:8601", "null"] {
                assert_eq!(code(true, path, &[local, ("origin", other)]).await, StatusCode::FORBIDDEN);
            }
            let rebound = [("host", "rebound.example"), ("origin", "http://rebound.example")];
            assert_eq!(code(true, path, &rebound).await, StatusCode::FORBIDDEN);
            assert_eq!(code(true, path, &[("host", "10.0.0.7:7601")]).await, StatusCode::FORBIDDEN);
            assert_eq!(code(false, path, &[local]).await, StatusCode::FORBIDDEN, "no key is needed");
        }
    }
}
