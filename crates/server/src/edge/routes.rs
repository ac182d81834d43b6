//! Finds the service that answers a call, by the name in its path.
//!
//! A general path router costs a call some ten allocations: path parameters, a box for the service and for
//! its future, two for each body. Here a path has two parts, and the first is looked up.

use std::{
    collections::HashMap,
    convert::Infallible,
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use ahash::RandomState;
use futures::future::BoxFuture;
use http::{Request, Response};
use tonic::{body::Body, server::NamedService};
use tower::Service;

use super::{AccessGuard, RequestBody, answer};

/// The services on one port. Cheap to clone.
#[derive(Clone, Default)]
pub struct Routes {
    by_name: Arc<HashMap<&'static str, Arc<dyn RouteService>, RandomState>>,
    /// Answers calls for all other names.
    fallback: Option<Arc<dyn RouteService>>,
    /// Lets users in; `None`: all.
    guard: Option<AccessGuard>,
}

/// The future that a service answers with.
pub(super) type RouteFuture = BoxFuture<'static, Result<Response<Body>, Infallible>>;

/// A service as tonic generates it; cloning it clones an `Arc`.
pub trait RouteService: Send + Sync + 'static {
    /// Answers a call.
    fn answer(&self, request: Request<Body>) -> RouteFuture;
}

impl<S> RouteService for S
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future = RouteFuture>,
    S: Clone + Send + Sync + 'static,
{
    fn answer(&self, request: Request<Body>) -> RouteFuture {
        // tonic's services are always ready.
        self.clone().call(request)
    }
}

impl Routes {
    /// Creates routes with a single service.
    #[must_use]
    pub fn new<S: RouteService + NamedService>(service: S) -> Self {
        Self::default().add_service(service)
    }

    /// Adds a service. It replaces a service with the same name.
    #[must_use]
    pub fn add_service<S: RouteService + NamedService>(mut self, service: S) -> Self {
        let mut by_name = HashMap::clone(&self.by_name);
        by_name.insert(S::NAME, Arc::new(service));
        self.by_name = Arc::new(by_name);
        self
    }

    /// One service for all calls, whatever their path.
    #[cfg(feature = "embedded")]
    pub(crate) fn all(service: impl RouteService) -> Self {
        Self { by_name: Arc::default(), fallback: Some(Arc::new(service)), guard: None }
    }

    /// Returns these routes with a guard that lets users in.
    #[must_use]
    pub(crate) fn guarded_by(self, guard: AccessGuard) -> Self {
        Self { guard: Some(guard), ..self }
    }

    /// Logs how many calls the guard has refused since it was called last.
    pub(super) fn report_refusals(&self) {
        self.guard.iter().for_each(AccessGuard::report_refusals);
    }

    /// Has the service with this name answer, if the call's user is let in. Answers UNIMPLEMENTED if there is
    /// none.
    pub(super) fn answer<B: RequestBody>(&self, name: &str, request: Request<B>) -> RouteFuture {
        match self.by_name.get(name).or(self.fallback.as_ref()) {
            Some(service) => match &self.guard {
                Some(guard) => guard.answer(service, request.map(Body::new)),
                None => service.answer(request.map(Body::new)),
            },
            None => Box::pin(async { Ok(answer::method_unknown().into_http()) }),
        }
    }
}

/// Serves callers within the process.
impl<B: RequestBody> Service<Request<B>> for Routes {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = RouteFuture;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let name = request.uri().path().split('/').nth(1).unwrap_or_default().to_owned();
        self.answer(&name, request)
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routes").field("services", &self.by_name.keys()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone)]
    struct Named(&'static str);

    impl NamedService for Named {
        const NAME: &'static str = "kith.test.v1.NamedService";
    }

    impl Service<Request<Body>> for Named {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = RouteFuture;

        fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _request: Request<Body>) -> Self::Future {
            let response = Response::builder().header("who", self.0).body(Body::empty()).unwrap();
            Box::pin(async move { Ok(response) })
        }
    }

    async fn who(mut routes: Routes, path: &str) -> String {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let response = routes.call(request).await.unwrap();
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        header("who").or(header("grpc-status")).unwrap().to_owned()
    }

    #[tokio::test]
    async fn path_selects_service_else_unimplemented() {
        let routes = Routes::new(Named("first"));
        assert_eq!(who(routes.clone(), "/kith.test.v1.NamedService/Any").await, "first");
        for path in ["/kith.test.v1.Other/Any", "/", "/kith.test.v1.NamedServices/Any"] {
            assert_eq!(who(routes.clone(), path).await, "12", "{path}");
        }
        let routes = routes.add_service(Named("second"));
        assert_eq!(who(routes, "/kith.test.v1.NamedService/Any").await, "second");
    }

    #[cfg(feature = "embedded")]
    #[tokio::test]
    async fn one_service_for_all_answers_every_path() {
        assert_eq!(who(Routes::all(Named("all")), "/kith.test.v1.Other/Any").await, "all");
    }
}
