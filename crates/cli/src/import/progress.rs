//! An import's progress, stored next to its file, so that a killed run can be resumed.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};

use super::reader::{BadLine, Position};

/// How many bad lines are kept to be shown again; further bad lines are counted.
const BAD_KEPT: usize = 1_000;

/// An import's progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Progress {
    /// The import that this progress belongs to.
    pub(super) job: Job,
    /// A random text in every request id.
    pub(super) run: String,
    /// Everything before it has been acknowledged.
    pub(super) at: Position,
    /// The results up to this position.
    pub(super) tally: ImportCounts,
    bad: Vec<BadLine>,
}

/// An import's identity. A run resumes only the same import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Job {
    /// The kind: `users`, `groups` or `follows`.
    pub(super) kind: String,
    /// The node's address, as given.
    pub(super) addr: String,
    /// The file's size.
    pub(super) bytes: u64,
    /// The file's SHA-256.
    pub(super) digest: String,
}

/// The number of lines by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImportCounts {
    /// Created records.
    pub(super) imported: u64,
    /// Records that existed already, with the same content.
    pub(super) already_there: u64,
    /// Lines that did not become a record.
    pub(super) bad: u64,
}

impl Job {
    /// Makes a job for a file, which is read once.
    pub(super) fn of(kind: &str, addr: &str, file: &Path) -> Result<Self> {
        let (bytes, digest) = digest(file).with_context(|| format!("could not read {}", file.display()))?;
        Ok(Self { kind: kind.to_owned(), addr: addr.to_owned(), bytes, digest })
    }

    /// Makes a job for a pipe, whose content is unknown before it is read.
    pub(super) fn of_pipe(kind: &str, addr: &str) -> Self {
        Self { kind: kind.to_owned(), addr: addr.to_owned(), bytes: 0, digest: String::new() }
    }
}

impl Progress {
    /// Begins a new run.
    pub(super) fn new(job: Job) -> Self {
        let run = uuid::Uuid::new_v4().to_string();
        Self { job, run, at: Position::default(), tally: ImportCounts::default(), bad: Vec::new() }
    }

    /// Loads the progress that an earlier run of `job` left in `file`, if any. Fails if it belongs to another
    /// job, or cannot be read.
    pub(super) fn load(file: &Path, job: &Job) -> Result<Option<Self>> {
        let Some(progress) = read::<Self>(file)? else { return Ok(None) };
        let Job { kind, addr, bytes, digest } = &progress.job;
        match job {
            _ if *kind != job.kind => {
                bail!("an import of {kind} was interrupted here; --restart begins again")
            }
            _ if *addr != job.addr => bail!("the interrupted import went to {addr}; --restart begins again"),
            _ if (bytes, digest) != (&job.bytes, &job.digest) => {
                bail!("the file has changed since its import was interrupted; --restart begins again")
            }
            _ => Ok(Some(progress)),
        }
    }

    /// Replaces the file, see [`replace`].
    pub(super) fn save(&self, file: &Path) -> Result<()> {
        replace(file, self).with_context(|| {
            format!("could not write {} (name another file with --progress-file)", file.display())
        })
    }

    /// Adds the results up to `end`.
    pub(super) fn record(&mut self, end: Position, tally: ImportCounts, bad: &[BadLine]) {
        self.at = end;
        self.tally.imported += tally.imported;
        self.tally.already_there += tally.already_there;
        self.tally.bad += tally.bad;
        let room = BAD_KEPT.saturating_sub(self.bad.len());
        self.bad.extend(bad.iter().take(room).cloned());
    }

    /// Returns the bad lines before [`Self::at`], the first thousand at most.
    pub(super) fn bad_lines(&self) -> &[BadLine] {
        &self.bad
    }
}

/// Reads what an interrupted run noted in a file; `None`: there is no such file.
pub(super) fn read<T: DeserializeOwned>(file: &Path) -> Result<Option<T>> {
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(why).with_context(|| format!("could not read {}", file.display())),
    };
    let Ok(noted) = serde_json::from_slice(&bytes) else {
        bail!("{} cannot be understood; --restart begins again", file.display());
    };
    Ok(Some(noted))
}

/// Replaces a file, atomically: it has either the new or the previous content after a failure.
pub(super) fn replace(file: &Path, content: &impl Serialize) -> io::Result<()> {
    let sibling = file.with_added_extension("new");
    let mut new = File::create(&sibling)?;
    new.write_all(&serde_json::to_vec(content)?)?;
    new.sync_all()?;
    fs::rename(&sibling, file)
}

/// Returns the file that keeps the progress when `file` is imported.
pub(super) fn default_file(file: &Path) -> PathBuf {
    file.with_added_extension("kith-progress")
}

/// Returns a file's size and SHA-256.
fn digest(file: &Path) -> io::Result<(u64, String)> {
    let mut digest = Sha256::new();
    let bytes = io::copy(&mut File::open(file)?, &mut digest)?;
    Ok((bytes, format!("{:x}", digest.finalize())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(kind: &str, content: &str) -> (tempfile::TempDir, PathBuf, Job) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("users.jsonl");
        fs::write(&file, content).unwrap();
        let job = Job::of(kind, "http://here", &file).unwrap();
        (folder, file, job)
    }

    #[test]
    fn a_run_goes_on_with_what_the_one_before_noted() {
        let (_folder, file, job) = job("users", "{}\n");
        let kept = default_file(&file);
        assert_eq!(Progress::load(&kept, &job).unwrap(), None);
        let mut progress = Progress::new(job.clone());
        let bad = BadLine { line: 1, why: "bad".to_owned() };
        let tally = ImportCounts { imported: 3, already_there: 1, bad: 1 };
        progress.record(Position { offset: 3, line: 1 }, tally, std::slice::from_ref(&bad));
        progress.save(&kept).unwrap();
        let loaded = Progress::load(&kept, &job).unwrap().unwrap();
        assert_eq!(loaded, progress);
        assert_eq!(loaded.bad_lines(), [bad]);
    }

    #[test]
    fn progress_of_another_job_is_refused_in_words() {
        let (_folder, file, first) = job("users", "{}\n");
        let kept = default_file(&file);
        Progress::new(first.clone()).save(&kept).unwrap();
        for (other, words) in [
            (Job { kind: "groups".to_owned(), ..first.clone() }, "an import of users was interrupted"),
            (Job { addr: "http://there".to_owned(), ..first.clone() }, "went to http://here"),
            (Job { digest: String::new(), ..first.clone() }, "the file has changed"),
        ] {
            let error = Progress::load(&kept, &other).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("--restart"), "{error}");
        }
        fs::write(&kept, "{").unwrap();
        assert!(Progress::load(&kept, &first).unwrap_err().to_string().contains("cannot be understood"));
    }

    #[test]
    fn list_of_bad_lines_is_bounded_not_their_count() {
        let (_folder, _file, job) = job("users", "");
        let mut progress = Progress::new(job);
        let bad = vec![BadLine { line: 1, why: String::new() }; 700];
        for _ in 0..3 {
            progress.record(Position::default(), ImportCounts { bad: 700, ..ImportCounts::default() }, &bad);
        }
        assert_eq!((progress.tally.bad, progress.bad_lines().len()), (2_100, BAD_KEPT));
    }
}
