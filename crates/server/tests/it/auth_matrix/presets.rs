//! The methods that each preset allows, in a file: a new method, or a changed scope in a preset, is a visible
//! change.

use std::fmt::Write as _;

use kith_server::{
    auth::{PRESETS, Preset, Rule},
    descriptors,
};
use kith_service::rpc::call::Principal;
use kith_store::UserId;

use crate::contract;

/// Returns the rules in contract order.
fn rules() -> Vec<(String, Rule)> {
    let rule = |method: prost_reflect::MethodDescriptor| {
        let (service, access) = (method.parent_service(), descriptors::access(&method).unwrap());
        let rule = Rule::of(service.full_name(), method.name(), &access).unwrap();
        (format!("{}/{}", service.name(), method.name()), rule)
    };
    contract::methods().into_iter().map(rule).collect()
}

fn written(preset: &Preset) -> String {
    let user = Principal::User(UserId::new(7).unwrap());
    let mut text = format!("# {}\n", preset.name);
    for (name, rule) in rules() {
        let allowed = |acting| rule.check(preset.rights, acting).is_ok();
        match (allowed(Principal::Service), allowed(user)) {
            (true, true) => writeln!(text, "{name}: for itself and for users").unwrap(),
            (true, false) => writeln!(text, "{name}: for itself").unwrap(),
            (false, true) => writeln!(text, "{name}: for users").unwrap(),
            (false, false) => {}
        }
    }
    text
}

#[test]
fn presets_allow_exactly_the_calls_of_the_file() {
    let now: Vec<_> = PRESETS.iter().map(written).collect();
    let now = now.join("\n");
    let kept = include_str!("presets.txt");
    assert!(now == kept, "presets.txt differs; it must be:\n{now}");
}
