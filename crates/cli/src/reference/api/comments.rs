//! The comments of a `.proto` file, by the path of their declarations.

use std::collections::BTreeMap;

use prost_types::FileDescriptorProto;

/// Numbers of the fields of descriptors that make up a path.
pub(super) mod place {
    pub(in super::super) const MESSAGES: i32 = 4;
    pub(in super::super) const ENUMS: i32 = 5;
    pub(in super::super) const SERVICES: i32 = 6;
    /// Within a message.
    pub(in super::super) const FIELDS: i32 = 2;
    /// Within an enum or a service: its values or its methods.
    pub(in super::super) const PARTS: i32 = 2;
}

/// The comments above each declaration of one file.
#[derive(Debug)]
pub(super) struct Comments(BTreeMap<Vec<i32>, String>);

impl Comments {
    pub(super) fn of(file: &FileDescriptorProto) -> Self {
        let locations = file.source_code_info.as_ref().map_or(&[][..], |info| &info.location);
        let said = locations.iter().filter_map(|location| {
            let comment = location.leading_comments.as_deref()?;
            Some((location.path.clone(), comment.to_owned()))
        });
        Self(said.collect())
    }

    /// Empty if there is none. Paragraphs are separated by an empty line.
    pub(super) fn at(&self, path: &[i32]) -> String {
        let comment = self.0.get(path).map_or("", String::as_str);
        comment.lines().map(str::trim).collect::<Vec<_>>().join("\n")
    }
}

/// A place in a list, as paths count it.
pub(super) fn index(at: usize) -> i32 {
    i32::try_from(at).unwrap_or(i32::MAX)
}
