//! Applications, as they are configured.

use kith_service::{
    application::{ApplicationRules, Applications, Closing, Deciders},
    domain_context::DomainContext,
};

use crate::config::Config;

pub(super) fn applications(
    context: DomainContext<'_>,
    config: &Config,
    deciders: Deciders,
    closing: &Closing,
) -> Applications {
    Applications::new(context, deciders, closing, rules(config))
}

pub(super) fn rules(config: &Config) -> ApplicationRules {
    let applications = &config.applications;
    ApplicationRules {
        pending_max: applications.pending_max,
        pending_for: applications.pending_for,
        kept: applications.kept,
        log_kept: config.relations.log_kept,
    }
}
