//! The JSON form of a field mask.

use std::fmt;

use prost_types::FieldMask;
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};

use kith_service::rpc::params::field_path;

/// A mask in a request: one string with commas between its paths, as in proto3 JSON, or an object with a list
/// of them, as some tools write it. `None`: null, an absent field.
///
/// A map key in a path is unchanged. (The general proto3 rule would change its case, and could not name a key
/// with a `_`.)
pub(super) struct Mask(pub(super) Option<FieldMask>);

impl<'de> Deserialize<'de> for Mask {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MaskVisitor)
    }
}

struct MaskVisitor;

impl<'de> Visitor<'de> for MaskVisitor {
    type Value = Mask;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field mask")
    }

    fn visit_unit<E: Error>(self) -> Result<Mask, E> {
        Ok(Mask(None))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Mask, E> {
        let paths = text.split(',').map(str::trim).filter(|path| !path.is_empty());
        Ok(Mask(Some(FieldMask { paths: paths.map(field_path).collect() })))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Mask, A::Error> {
        let mut paths = None;
        while let Some(key) = map.next_key::<String>()? {
            if key != "paths" || paths.is_some() {
                return Err(A::Error::custom("paths, once, is all that a mask has"));
            }
            paths = Some(map.next_value::<Option<Vec<String>>>()?.unwrap_or_default());
        }
        let paths = paths.unwrap_or_default();
        Ok(Mask(Some(FieldMask { paths: paths.iter().map(|path| field_path(path)).collect() })))
    }
}
