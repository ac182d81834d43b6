//! Reads the files that decide who may do what: keys, callers, certificates.

use std::{
    fmt,
    fs::{File, Metadata, OpenOptions},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use zeroize::Zeroizing;

/// Most bytes that a file may have.
pub const BYTES_MAX: usize = 4 << 20;

/// Written by others.
const OTHERS_WRITE: u32 = 0o002;
/// Read, written or searched by others.
const OTHERS: u32 = 0o007;
const OTHERS_READ: u32 = 0o004;
const GROUP_WRITES: u32 = 0o020;
/// The sticky bit of a folder: only a file's owner may remove or rename it.
const STICKY: u32 = 0o1000;

/// The kind of content in a file. It decides who may read the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A private key: is refused if others may read it.
    PrivateKey,
    /// Caller keys: the node warns if others may read the file. It does not refuse it, because compose mounts
    /// files with the rights that they have on the host.
    Keys,
    /// Digests or certificates: everybody may read it.
    Public,
}

/// A file that was read.
pub struct SecretFile {
    /// The whole content. Overwritten when dropped.
    pub bytes: Zeroizing<Vec<u8>>,
    /// The change that should be made.
    pub warnings: Vec<Warning>,
}

/// Reads a file. It is opened once, and the opened file is what is checked: the file at the path may be
/// exchanged meanwhile. Symbolic links are followed, because Kubernetes mounts secrets as links. The owner
/// may be any user.
///
/// # Errors
/// When it is no regular file of at most [`BYTES_MAX`], when others can change it or exchange it in its
/// folder, when others may read a private key, or when it cannot be read.
pub fn read(path: &Path, content: Content) -> Result<SecretFile, UnfitFile> {
    let unfit = |why| UnfitFile { path: path.to_owned(), why };
    let file = open(path).map_err(|error| unfit(UnfitReason::Unreadable(error.kind())))?;
    let data = file.metadata().map_err(|error| unfit(UnfitReason::Unreadable(error.kind())))?;
    check_file(&data, content).map_err(unfit)?;
    check_folders(path).map_err(unfit)?;
    let bytes = contents(&file).map_err(unfit)?;
    Ok(SecretFile { bytes, warnings: warnings(path, &data, content) })
}

/// A file that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfitFile {
    path: PathBuf,
    why: UnfitReason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum UnfitReason {
    Unreadable(io::ErrorKind),
    NoFile,
    TooLarge,
    OthersWrite,
    OthersRead,
    OthersWriteFolder(PathBuf),
}

impl UnfitFile {
    /// A line for a shell that helps.
    #[must_use]
    pub fn run(&self) -> String {
        let path = self.path.display();
        match &self.why {
            UnfitReason::Unreadable(_) | UnfitReason::NoFile | UnfitReason::TooLarge => {
                format!("ls -lL {path}")
            }
            UnfitReason::OthersWrite => format!("chmod o-w {path}"),
            UnfitReason::OthersRead => format!("chmod o= {path}"),
            UnfitReason::OthersWriteFolder(folder) => format!("chmod o-w {}", folder.display()),
        }
    }

    /// Says what is wrong, without what to do.
    #[must_use]
    pub fn finding(&self) -> String {
        let path = self.path.display();
        match &self.why {
            UnfitReason::Unreadable(io::ErrorKind::NotFound) => format!("there is no file {path}"),
            UnfitReason::Unreadable(io::ErrorKind::PermissionDenied) => {
                format!("{path} may not be read by this user")
            }
            UnfitReason::Unreadable(kind) => format!("{path} cannot be read ({kind})"),
            UnfitReason::NoFile => format!("{path} is no regular file"),
            UnfitReason::TooLarge => format!("{path} is larger than {} MiB", BYTES_MAX >> 20),
            UnfitReason::OthersWrite => format!("everybody on this machine may write {path}"),
            UnfitReason::OthersRead => format!("everybody on this machine may read {path}"),
            UnfitReason::OthersWriteFolder(folder) => {
                format!(
                    "everybody on this machine may exchange {path}, because all may write {}",
                    folder.display()
                )
            }
        }
    }
}

impl fmt::Display for UnfitFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.finding())?;
        match &self.why {
            UnfitReason::Unreadable(io::ErrorKind::NotFound) => f.write_str("; make it, or name another"),
            UnfitReason::Unreadable(io::ErrorKind::PermissionDenied) => {
                f.write_str("; give it the right to, or name another")
            }
            UnfitReason::Unreadable(_) | UnfitReason::NoFile | UnfitReason::TooLarge => {
                f.write_str("; name another file")
            }
            UnfitReason::OthersWrite | UnfitReason::OthersRead | UnfitReason::OthersWriteFolder(_) => {
                write!(f, "; take that right away ({})", self.run())
            }
        }
    }
}

impl std::error::Error for UnfitFile {}

/// Something about a file that is used which should be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    path: PathBuf,
    others_read: bool,
}

impl Warning {
    /// A line for a shell that changes it.
    #[must_use]
    pub fn run(&self) -> String {
        format!("chmod {} {}", if self.others_read { "o=" } else { "g-w" }, self.path.display())
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (who, path) = if self.others_read {
            ("everybody on this machine may read", self.path.display())
        } else {
            ("the group of the file may write", self.path.display())
        };
        write!(f, "{who} {path}")
    }
}

/// Prints no part of the content: the bytes are secret.
impl fmt::Debug for SecretFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretFile")
            .field("len", &self.bytes.len())
            .field("warnings", &self.warnings)
            .finish()
    }
}

/// A FIFO without a writer is opened at once, so that it can be refused.
#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
}

fn check_file(file: &Metadata, content: Content) -> Result<(), UnfitReason> {
    if !file.is_file() {
        return Err(UnfitReason::NoFile);
    }
    if mode(file) & OTHERS_WRITE != 0 {
        return Err(UnfitReason::OthersWrite);
    }
    if content == Content::PrivateKey && mode(file) & OTHERS != 0 {
        return Err(UnfitReason::OthersRead);
    }
    Ok(())
}

/// Checks the folder of the path, and the folder of the file which its links lead to.
fn check_folders(path: &Path) -> Result<(), UnfitReason> {
    let end = path.canonicalize().map_err(|error| UnfitReason::Unreadable(error.kind()))?;
    for file in [path, &end] {
        let folder = match file.parent() {
            Some(folder) if folder != Path::new("") => folder,
            Some(_) | None => Path::new("."),
        };
        let data = folder.metadata().map_err(|error| UnfitReason::Unreadable(error.kind()))?;
        if mode(&data) & OTHERS_WRITE != 0 && mode(&data) & STICKY == 0 {
            return Err(UnfitReason::OthersWriteFolder(folder.to_owned()));
        }
    }
    Ok(())
}

/// Invariant: at most [`BYTES_MAX`] + 1 bytes are read, whatever size the system reports.
fn contents(file: &File) -> Result<Zeroizing<Vec<u8>>, UnfitReason> {
    let unreadable = |error: io::Error| UnfitReason::Unreadable(error.kind());
    let size = usize::try_from(file.metadata().map_err(unreadable)?.len()).unwrap_or(usize::MAX);
    if size > BYTES_MAX {
        return Err(UnfitReason::TooLarge);
    }
    // Has room for the whole file and one more byte: a vector that grows leaves parts of the secret behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(size + 1));
    file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > BYTES_MAX { Err(UnfitReason::TooLarge) } else { Ok(bytes) }
}

fn warnings(path: &Path, file: &Metadata, content: Content) -> Vec<Warning> {
    let warning = |others_read| Warning { path: path.to_owned(), others_read };
    let others = content == Content::Keys && mode(file) & OTHERS_READ != 0;
    let group = mode(file) & GROUP_WRITES != 0;
    others.then(|| warning(true)).into_iter().chain(group.then(|| warning(false))).collect()
}

#[cfg(unix)]
fn mode(data: &Metadata) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    data.permissions().mode()
}

/// The system does not say it in bits.
#[cfg(not(unix))]
fn mode(_data: &Metadata) -> u32 {
    0
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
        process::Command,
    };

    use tempfile::TempDir;

    use super::*;

    fn folder() -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        set(folder.path(), 0o755);
        folder
    }

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn file(folder: &TempDir, mode: u32) -> PathBuf {
        let path = folder.path().join("file");
        fs::write(&path, "sesame").unwrap();
        set(&path, mode);
        path
    }

    fn why(path: &Path, content: Content) -> String {
        let error = read(path, content).unwrap_err();
        assert!(!error.to_string().contains("sesame"), "{error}");
        error.finding().replace(&path.display().to_string(), "FILE")
    }

    #[test]
    fn private_file_is_read_without_a_warning() {
        let folder = folder();
        let read = read(&file(&folder, 0o600), Content::PrivateKey).unwrap();
        assert_eq!((read.bytes.as_slice(), read.warnings.as_slice()), (&b"sesame"[..], &[][..]));
        assert!(!format!("{read:?}").contains("sesame"));
    }

    #[test]
    fn what_others_can_write_is_refused() {
        let folder = folder();
        for content in [Content::PrivateKey, Content::Keys, Content::Public] {
            assert_eq!(why(&file(&folder, 0o602), content), "everybody on this machine may write FILE");
        }
        let path = file(&folder, 0o600);
        set(folder.path(), 0o777);
        assert!(why(&path, Content::Public).starts_with("everybody on this machine may exchange FILE"));
        set(folder.path(), 0o1777);
        assert!(read(&path, Content::PrivateKey).is_ok(), "none but the owner may exchange it");
    }

    #[test]
    fn readable_by_others_is_refused_for_keys_alone() {
        let folder = folder();
        let path = file(&folder, 0o604);
        assert_eq!(why(&path, Content::PrivateKey), "everybody on this machine may read FILE");
        let fixes =
            |content| read(&path, content).unwrap().warnings.iter().map(Warning::run).collect::<Vec<_>>();
        assert_eq!(fixes(Content::Keys), [format!("chmod o= {}", path.display())]);
        assert_eq!(fixes(Content::Public), Vec::<String>::new());
        let of_group = read(&file(&folder, 0o660), Content::Public).unwrap().warnings;
        assert_eq!(of_group[0].to_string(), format!("the group of the file may write {}", path.display()));
    }

    #[test]
    fn link_target_decides_which_folder_counts() {
        let (folder, other) = (folder(), folder());
        let (end, link) = (file(&other, 0o600), folder.path().join("link"));
        symlink(&end, &link).unwrap();
        assert_eq!(read(&link, Content::PrivateKey).unwrap().bytes.as_slice(), b"sesame");
        set(other.path(), 0o777);
        assert!(why(&link, Content::Public).contains("may exchange FILE"));
    }

    #[test]
    fn irregular_file_is_refused_at_once() {
        let folder = folder();
        let (fifo, zero) = (folder.path().join("fifo"), folder.path().join("zero"));
        assert!(Command::new("mkfifo").arg("-m").arg("600").arg(&fifo).status().unwrap().success());
        symlink("/dev/zero", &zero).unwrap();
        for path in [fifo.as_path(), &zero, folder.path()] {
            assert_eq!(why(path, Content::Keys), "FILE is no regular file");
        }
        assert_eq!(why(&folder.path().join("absent"), Content::Keys), "there is no file FILE");
    }

    #[test]
    fn a_file_may_have_4_mib_and_no_byte_more() {
        let folder = folder();
        let path = file(&folder, 0o600);
        fs::write(&path, vec![b'a'; BYTES_MAX]).unwrap();
        assert_eq!(read(&path, Content::Keys).unwrap().bytes.len(), BYTES_MAX);
        fs::write(&path, vec![b'a'; BYTES_MAX + 1]).unwrap();
        assert_eq!(why(&path, Content::Keys), "FILE is larger than 4 MiB");
    }
}
