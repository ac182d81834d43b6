//! Files of JSON Lines: their forms, and a record out of a line.

pub mod file_form;
pub mod record;
