//! JSON Lines files: their forms, and records from lines.

pub mod file_form;
pub mod record;
