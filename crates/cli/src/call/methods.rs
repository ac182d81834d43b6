//! Finds methods by their names, whole or shortened.

use anyhow::{Context as _, Result, bail};
use prost_reflect::{DescriptorPool, MethodDescriptor};

use kith_server::descriptors;

/// A proposed name is at least this similar.
const LIKENESS: f64 = 0.8;
/// How many names are printed if several match.
const NAMES_PRINTED: usize = 5;

/// The known methods.
#[derive(Debug)]
pub(crate) struct Methods {
    pool: DescriptorPool,
}

impl Methods {
    /// Returns the methods in this Kith version, and the health service. Fails if the descriptors in the
    /// program cannot be decoded.
    pub(crate) fn built_in() -> Result<Self> {
        let pool = descriptors::pool().context("the descriptors of the contract cannot be read")?;
        Ok(Self { pool })
    }

    /// Returns all methods, service by service.
    pub(crate) fn all(&self) -> Vec<MethodDescriptor> {
        self.pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()).collect()
    }

    /// Finds the method with a name: `GetUser`, `UserService/GetUser`, with any part of the package before
    /// it, with `.` or `/`, in any case. Fails if no method has this name, with the name that may be meant,
    /// or if several have it.
    pub(crate) fn find(&self, name: &str) -> Result<MethodDescriptor> {
        let all = self.all();
        let mut found: Vec<_> =
            all.iter().filter(|method| matches_name(name, method.full_name())).cloned().collect();
        if let Some(exact) = found.iter().position(|method| full_name(method) == name.trim_start_matches('/'))
        {
            return Ok(found.swap_remove(exact));
        }
        match found.len() {
            1 => Ok(found.swap_remove(0)),
            0 => bail!(unknown_method(name, &all)),
            _ => {
                let names: Vec<_> = found.iter().take(NAMES_PRINTED).map(full_name).collect();
                bail!("{name} may be {}; say which", names.join(" or "))
            }
        }
    }
}

/// Returns its full name: `kith.user.v1.UserService/GetUser`.
pub(crate) fn full_name(method: &MethodDescriptor) -> String {
    format!("{}/{}", method.parent_service().full_name(), method.name())
}

/// Returns whether every part of `name` is in `full` in this order, with the last part at the end and its
/// predecessor as the service.
fn matches_name(name: &str, full: &str) -> bool {
    let mut parts = name.trim_start_matches('/').rsplit(['/', '.']);
    let mut known = full.rsplit('.');
    let fixed = |part: Option<&str>, known: Option<&str>| match (part, known) {
        (Some(part), Some(known)) => part.eq_ignore_ascii_case(known),
        (None, _) => true,
        (Some(_), None) => false,
    };
    if !fixed(parts.next(), known.next()) || !fixed(parts.next(), known.next()) {
        return false;
    }
    parts.all(|part| known.any(|known| known.eq_ignore_ascii_case(part)))
}

fn unknown_method(name: &str, all: &[MethodDescriptor]) -> String {
    let meant = |method: &MethodDescriptor| {
        let short = name.rsplit(['/', '.']).next().unwrap_or(name);
        let like = strsim::jaro_winkler(&short.to_lowercase(), &method.name().to_lowercase());
        (like, full_name(method))
    };
    let best = all.iter().map(meant).max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = match best {
        Some((like, full)) if like >= LIKENESS => format!("did you mean {full}? "),
        _ => String::new(),
    };
    format!("no method {name}; {hint}kith call --list lists them")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str) -> Result<String> {
        Methods::built_in().unwrap().find(name).map(|method| full_name(&method))
    }

    #[test]
    fn method_is_found_by_a_part_of_its_name() {
        for name in [
            "kith.user.v1.UserService/GetUser",
            "/kith.user.v1.UserService/GetUser",
            "kith.user.v1.UserService.GetUser",
            "user.UserService/GetUser",
            "UserService/GetUser",
            "GetUser",
            "getuser",
        ] {
            assert_eq!(found(name).unwrap(), "kith.user.v1.UserService/GetUser", "{name}");
        }
        assert_eq!(found("Health/Check").unwrap(), "grpc.health.v1.Health/Check");
    }

    #[test]
    fn unknown_method_is_refused_with_a_similar_one() {
        for (name, words) in [
            ("GetUsr", "did you mean kith.user.v1.UserService/GetUser?"),
            ("group.UserService/GetUser", "did you mean kith.user.v1.UserService/GetUser?"),
            ("Xyzzy", "no method Xyzzy; kith call --list"),
            ("", "no method"),
        ] {
            let error = found(name).unwrap_err().to_string();
            assert!(error.contains(words), "{name}: {error}");
        }
    }
}
