//! Sends kept changes to a receiver, as signed webhooks.
//!
//! A [`Forwarder`] reads pages of changes from a [`ChangeSource`], posts each change to a receiver, and keeps
//! its place in a [`ForwardState`]. Each change is delivered at least once, or its record is parked with a
//! reason. Requests about one record follow each other. The saved cursor is never behind a change that is
//! neither delivered nor parked.

mod address;
mod backoff;
mod change;
mod connection;
mod courier;
mod event;
mod forwarder;
mod ledger;
mod metrics;
mod metrics_page;
mod outcome;
mod receiver;
mod receiver_url;
mod secrets;
mod settings;
mod state;
mod state_file;
mod stop_reason;
mod window;

pub use self::{
    address::{AddressRule, Resolver, SystemResolver, is_public},
    change::{Change, ChangeRecord, ChangeSource, Page, SourceError},
    forwarder::Forwarder,
    metrics::{ForwardMetric, METRICS, Progress},
    metrics_page::serve_metrics,
    outcome::{Answer, Outcome},
    receiver::Receiver,
    receiver_url::ReceiverUrl,
    secrets::{SecretError, Secrets},
    settings::Settings,
    state::{ForwardState, Parked, SavedState},
    state_file::{LockedStateFile, RetryRequest, StateError, StateFile},
    stop_reason::StopReason,
};
