//! The comments in a `.proto` file, by the path of the declaration below them.

use std::collections::BTreeMap;

use prost_types::FileDescriptorProto;

/// The field numbers in descriptors that make up a path.
pub mod field_number {
    /// Messages in a file.
    pub const MESSAGES: i32 = 4;
    /// Enums in a file.
    pub const ENUMS: i32 = 5;
    /// Services in a file.
    pub const SERVICES: i32 = 6;
    /// Fields in a message.
    pub const FIELDS: i32 = 2;
    /// Values in an enum, or methods in a service.
    pub const PARTS: i32 = 2;
}

/// The comment above each declaration in one file.
#[derive(Debug)]
pub struct Comments(BTreeMap<Vec<i32>, String>);

impl Comments {
    /// Reads the comments from a file with source information. Without it there are none.
    #[must_use]
    pub fn of(file: &FileDescriptorProto) -> Self {
        let locations = file.source_code_info.as_ref().map_or(&[][..], |info| &info.location);
        let comments = locations.iter().filter_map(|location| {
            let comment = location.leading_comments.as_deref()?;
            Some((location.path.clone(), comment.to_owned()))
        });
        Self(comments.collect())
    }

    /// Empty where there is none. Paragraphs stay apart by an empty line.
    #[must_use]
    pub fn at(&self, path: &[i32]) -> String {
        let comment = self.0.get(path).map_or("", String::as_str);
        comment.lines().map(str::trim).collect::<Vec<_>>().join("\n").trim().to_owned()
    }
}

/// A position in a list, as paths count it.
#[must_use]
pub fn index(at: usize) -> i32 {
    i32::try_from(at).unwrap_or(i32::MAX)
}
