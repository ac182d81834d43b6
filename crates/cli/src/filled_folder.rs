//! A folder that a command fills with files.

use std::{fs, io, path::Path};

use kith_server::start_error::StartError;

/// A folder that exists, named by a flag.
#[derive(Clone, Copy, Debug)]
pub(super) struct FilledFolder<'a> {
    flag: &'static str,
    folder: &'a Path,
}

impl<'a> FilledFolder<'a> {
    /// Creates the folder if it does not exist.
    ///
    /// # Errors
    /// If it cannot be created, or its path begins with `~`.
    pub(super) fn create(flag: &'static str, folder: &'a Path) -> Result<Self, StartError> {
        if folder.to_string_lossy().starts_with('~') {
            let hint = "begins with ~, which only a shell expands; write the whole path";
            return Err(StartError::new(format!("{flag} {hint}")));
        }
        let filled = Self { flag, folder };
        fs::create_dir_all(folder).map_err(|error| filled.unwritable(&error))?;
        Ok(filled)
    }

    /// Writes a file of this name, or replaces it. Returns its path.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn write(self, name: &str, bytes: &[u8]) -> Result<String, StartError> {
        let file = self.folder.join(name);
        fs::write(&file, bytes).map_err(|error| self.unwritable(&error))?;
        Ok(file.display().to_string())
    }

    fn unwritable(self, error: &io::Error) -> StartError {
        StartError::new(format!("{} {} cannot be written: {error}", self.flag, self.folder.display()))
    }
}
