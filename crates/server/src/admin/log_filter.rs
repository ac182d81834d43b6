//! A node's temporary log filter.

use std::{ops::RangeInclusive, time::Duration};

use kith_proto::admin::v1 as wire;
use kith_service::error::Error;
use kith_store::Invalid;
use tokio::time::Instant;

use super::convert::within;
use crate::telemetry::{self, FilterError, FilterState};

/// Longer filters are refused.
const FILTER_MAX: usize = 1_024;
const LASTS_DEFAULT: Duration = Duration::from_secs(600);
const LASTS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 3_600);

/// Sets the requested filter.
///
/// # Errors
/// If the filter is invalid, or the time is out of bounds. Nothing is changed then.
pub(super) fn set(request: &wire::SetLogFilterRequest) -> Result<wire::SetLogFilterResponse, Error> {
    if request.filter.len() > FILTER_MAX {
        let text = format!("has {} bytes; it must not have more than {FILTER_MAX}", request.filter.len());
        return Err(Error::invalid("filter", &Invalid::new(text)));
    }
    let lasts = lasts(request)?;
    let now = if request.filter.is_empty() {
        telemetry::filter_log_as_configured()
    } else {
        telemetry::filter_log(&request.filter, Some(lasts))
    };
    match now {
        Ok(now) => Ok(answer(now)),
        Err(FilterError::Unreadable(why)) => {
            Err(Error::invalid("filter", &Invalid::new(format!("is no filter: {why}"))))
        }
        Err(FilterError::NotOurs) => Err(Error::internal()),
    }
}

fn lasts(request: &wire::SetLogFilterRequest) -> Result<Duration, Error> {
    let lasts = within(request.lasts, LASTS_DEFAULT, &LASTS);
    lasts.ok_or_else(|| Error::invalid("lasts", &Invalid::new("must be from 1 s to 24 h")))
}

fn answer(now: FilterState) -> wire::SetLogFilterResponse {
    let left = now.until.map(|until| until.saturating_duration_since(Instant::now()));
    let lasts = left.and_then(|left| left.try_into().ok());
    wire::SetLogFilterResponse { filter: now.filter, configured: now.configured, lasts }
}
